"""Vector registers for compiled code: 32-byte loads, stores and arithmetic spelled out.

LLVM does not vectorise loops with gathers and scatters by itself. These intrinsics give compiled
code a value type, a vector of `LANES` numbers, and raw access to array memory: no bounds, no
negative indices, positions counted in elements of the flattened array. The caller guarantees that
positions are inside and, for `load` and `store`, multiples of the vector length.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator,no-any-return"

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel import models
from numba.core.datamodel.registry import register_default
from numba.extending import intrinsic as _typed_intrinsic

from onlinegcp.kernels.layout import LANES

# Compiled code calls intrinsics without the typing context that their definitions take.
intrinsic: Any = _typed_intrinsic


class VectorType(types.Type):
    """Numba's name for one vector register."""


VECTOR = VectorType(name=f"vector_{LANES}")
_REGISTER = ir.VectorType(ir.DoubleType(), LANES)
_BYTES = 8 * LANES


@register_default(VectorType)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, dmm, fe_type):
        super().__init__(dmm, fe_type, _REGISTER)


def element_address(context, builder, array_type, array, position):
    """Pointer to element `position` of the flattened array."""
    if isinstance(array_type, types.Array):
        array = context.make_array(array_type)(context, builder, array).data
    return builder.gep(array, [position], inbounds=True)


@intrinsic
def pointer(typingctx, array):
    """Address of an array's first element, accepted below wherever an array is.

    Passing arrays to functions that are called per sample costs atomic reference counts (20 ns);
    passing addresses costs nothing. The caller keeps the array alive.
    """

    def codegen(context, builder, signature, args):
        return context.make_array(signature.args[0])(context, builder, args[0]).data

    return types.CPointer(array.dtype)(array), codegen


@intrinsic
def load(typingctx, array, position):
    """Vector from consecutive elements; aligned to 32 bytes."""

    def codegen(context, builder, signature, args):
        pointer = element_address(context, builder, signature.args[0], args[0], args[1])
        return builder.load(builder.bitcast(pointer, _REGISTER.as_pointer()), align=_BYTES)

    return VECTOR(array, types.int64), codegen


@intrinsic
def store(typingctx, array, position, value):
    """Write a vector to consecutive elements; aligned to 32 bytes."""

    def codegen(context, builder, signature, args):
        pointer = element_address(context, builder, signature.args[0], args[0], args[1])
        builder.store(args[2], builder.bitcast(pointer, _REGISTER.as_pointer()), align=_BYTES)
        return context.get_dummy_value()

    return types.void(array, types.int64, value), codegen


@intrinsic
def peek(typingctx, array, position):
    """One element, without the wrap-around of negative indices."""

    def codegen(context, builder, signature, args):
        return builder.load(element_address(context, builder, signature.args[0], args[0], args[1]))

    return array.dtype(array, types.int64), codegen


@intrinsic
def poke(typingctx, array, position, value):
    """Write one element, without the wrap-around of negative indices."""

    def codegen(context, builder, signature, args):
        builder.store(
            args[2], element_address(context, builder, signature.args[0], args[0], args[1])
        )
        return context.get_dummy_value()

    return types.void(array, types.int64, array.dtype), codegen


@intrinsic
def prefetch(typingctx, array, position):
    """Ask for the cache line of an element that will be read and written soon."""

    def codegen(context, builder, signature, args):
        pointer = element_address(context, builder, signature.args[0], args[0], args[1])
        byte = ir.IntType(8).as_pointer()
        int32 = ir.IntType(32)
        function = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(ir.VoidType(), [byte, int32, int32, int32]),
            "llvm.prefetch.p0",
        )
        builder.call(function, [builder.bitcast(pointer, byte), int32(0), int32(3), int32(1)])
        return context.get_dummy_value()

    return types.void(array, types.int64), codegen


@intrinsic
def spread(typingctx, array, position):
    """Vector with one array element in every lane."""

    def codegen(context, builder, signature, args):
        pointer = element_address(context, builder, signature.args[0], args[0], args[1])
        return _splat(builder, builder.load(pointer))

    return VECTOR(array, types.int64), codegen


@intrinsic
def fill(typingctx, value):
    """Vector with one number in every lane."""

    def codegen(context, builder, signature, args):
        return _splat(builder, args[0])

    return VECTOR(types.float64), codegen


def _splat(builder, scalar):
    undefined = ir.Constant(_REGISTER, ir.Undefined)
    first = builder.insert_element(undefined, scalar, ir.IntType(32)(0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(first, undefined, zeros)


def _binary(name):
    @intrinsic
    def operation(typingctx, a, b):
        def codegen(context, builder, signature, args):
            return getattr(builder, name)(args[0], args[1])

        return a(a, b), codegen

    return operation


add = _binary("fadd")
subtract = _binary("fsub")
multiply = _binary("fmul")
divide = _binary("fdiv")


def _call(name, count):
    """Intrinsic of LLVM on `count` vectors."""

    def generate(context, builder, signature, args):
        kind = ir.FunctionType(_REGISTER, [_REGISTER] * count)
        named = f"llvm.{name}.v{LANES}f64"
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, named), args)

    return generate


_fma = _call("fma", 3)
_square_root = _call("sqrt", 1)


@intrinsic
def multiply_add(typingctx, a, b, c):
    """a * b + c with one rounding."""
    return a(a, a, a), _fma


@intrinsic
def square_root(typingctx, a):
    """Square root of every lane."""
    return a(a), _square_root


@intrinsic
def maximum(typingctx, a, b):
    """Larger of two numbers in every lane; NaN in `a` stays NaN, so that divergence is seen."""

    def codegen(context, builder, signature, args):
        smaller = builder.fcmp_ordered("<", args[0], args[1])
        return builder.select(smaller, args[1], args[0])

    return a(a, a), codegen


@intrinsic
def lane_sum(typingctx, a):
    """Sum of the lanes, always in the same order (halves first)."""

    def codegen(context, builder, signature, args):
        value = args[0]
        lanes = value.type.count
        while lanes > 1:
            lanes //= 2
            undefined = ir.Constant(value.type, ir.Undefined)

            def half(start, value=value, undefined=undefined, lanes=lanes):
                mask = ir.Constant(
                    ir.VectorType(ir.IntType(32), lanes), list(range(start, start + lanes))
                )
                return builder.shuffle_vector(value, undefined, mask)

            value = builder.fadd(half(0), half(lanes))
        return builder.extract_element(value, ir.IntType(32)(0))

    return types.float64(a), codegen


@intrinsic
def multiply_high_64(typingctx, a, b):
    """Upper 64 bits of the product of two uint64 (one instruction)."""

    def codegen(context, builder, signature, args):
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        return builder.trunc(builder.lshr(product, wide(64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), codegen


@intrinsic
def count_bits(typingctx, a):
    """Number of ones in a uint64."""

    def codegen(context, builder, signature, args):
        return builder.ctpop(args[0])

    return types.int64(types.uint64), codegen
