"""A compiler that gives every kernel copies of its callees that nobody else's can replace.

Numba puts a copy of each callee into the code of its callers, under the callee's own name, and the
loader keeps the first copy of a name that it meets. Copies are optimised together with their
caller, so that they may add up in another order: which one ran, and with it the last bits of a
result, would depend on what the process had compiled or loaded before. Here the copies lose their
names outside of the kernel once they are optimised, and a process that compiles a kernel runs the
code that later ones load.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder


class _OwnCopies(JITCodeLibrary):
    """Code of one kernel."""

    def _optimize_final_module(self) -> None:
        super()._optimize_final_module()
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == llvm.Linkage.linkonce_odr:
                function.linkage = llvm.Linkage.internal

    def _get_module_for_linking(self) -> Any:
        # As it would be read from disk, so that callers are the same code in either case.
        if self._shared_module is None:
            shared = super()._get_module_for_linking()
            self._shared_module = llvm.parse_bitcode(shared.as_bitcode())
        return self._shared_module


class KernelCompiler(CompilerBase):
    """Numba's own passes, with code that is whole in itself."""

    def define_pipelines(self) -> list[Any]:
        state = self.state
        # The passes make a library only where there is none.
        state.library = _OwnCopies(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()  # so that it can be stored
        return [DefaultPassBuilder.define_nopython_pipeline(state)]
