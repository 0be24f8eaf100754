"""Two neighbouring numbers of a buffer at once: one request of sixteen bytes instead of two.

The first of them has an even place. What is read or written once per step goes past the caches, so
that rows which samples ask for again and again stay there.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,misc"

from __future__ import annotations

from typing import Any

from onlinegcp.kernels.cuda.lanes import SIMULATED, device

if SIMULATED:

    def pair_of(buffer, place):
        """The numbers in `place` and `place` + 1."""
        return buffer[place], buffer[place + 1]

    def put_pair(buffer, place, a, b):
        """Write them."""
        buffer[place], buffer[place + 1] = a, b

    pair_once, put_once = pair_of, put_pair

else:
    from llvmlite import ir
    from numba import types
    from numba.cuda.extending import intrinsic

    def _address(context, builder, kind, buffer, place) -> Any:
        data = context.make_array(kind)(context, builder, buffer).data
        return builder.ptrtoint(builder.gep(data, [place]), ir.IntType(64))

    def _reading(text: str) -> Any:
        @intrinsic
        def read(_context, buffer, place):
            given = types.UniTuple(types.float64, 2)

            def code(context, builder, signature, arguments) -> Any:
                at = _address(context, builder, signature.args[0], *arguments)
                number = ir.DoubleType()
                kind = ir.FunctionType(ir.LiteralStructType([number, number]), [at.type])
                # With side effects: it may not pass a write.
                found = builder.call(
                    ir.InlineAsm(kind, text + " {$0,$1},[$2];", "=d,=d,l", side_effect=True), [at]
                )
                pair = [builder.extract_value(found, q) for q in range(2)]
                return context.make_tuple(builder, given, pair)

            return given(buffer, types.int64), code

        return read

    def _writing(text: str) -> Any:
        @intrinsic
        def write(_context, buffer, place, a, b):
            def code(context, builder, signature, arguments) -> Any:
                at = _address(context, builder, signature.args[0], *arguments[:2])
                number = ir.DoubleType()
                kind = ir.FunctionType(ir.VoidType(), [at.type, number, number])
                asm = ir.InlineAsm(kind, text + " [$0],{$1,$2};", "l,d,d", side_effect=True)
                builder.call(asm, [at, *arguments[2:]])
                return context.get_dummy_value()

            return types.void(buffer, types.int64, types.float64, types.float64), code

        return write

    _read, _read_once = _reading("ld.global.v2.f64"), _reading("ld.global.cs.v2.f64")
    _write, _write_once = _writing("st.global.v2.f64"), _writing("st.global.cs.v2.f64")

    @device
    def pair_of(buffer, place):
        """The numbers in `place` and `place` + 1."""
        return _read(buffer, place)

    @device
    def put_pair(buffer, place, a, b):
        """Write them."""
        _write(buffer, place, a, b)

    @device
    def pair_once(buffer, place):
        """As `pair_of`, past the caches."""
        return _read_once(buffer, place)

    @device
    def put_once(buffer, place, a, b):
        """As `put_pair`, past the caches."""
        _write_once(buffer, place, a, b)
