"""rlxlang: a language for differentiable tensor programs, embedded in Python.

``import rlxlang as rlx`` and ``import rlx`` give the same module. Public names are
imported on first use, so that importing the package costs a few milliseconds and a
script pays only for what it touches.

Example:
    >>> import rlxlang as rlx
    >>> model = rlx.load("mlp.rlx", hidden=512)  # doctest: +SKIP
    >>> trainer = model.init_params(seed=0).trainer(rlx.optim.Sgd(0.1))  # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rlxlang import _source_tree as _source_tree  # before any of backends/, grammar/, stdlib/
from rlxlang._version import __version__

if TYPE_CHECKING:
    from rlxlang import lowp, optim, training
    from rlxlang.combinators import cond, custom_jvp, custom_vjp, remat, scan, while_loop
    from rlxlang.debugging import debug_checks, debug_nans, trace
    from rlxlang.device import (
        Device,
        cache_info,
        clear_cache,
        devices,
        fastest_device,
        fastest_device_for,
        set_threads,
        threads,
    )
    from rlxlang.diagnostics.diagnostic import Diagnostic
    from rlxlang.diagnostics.errors import (
        InternalError,
        RlxBackendError,
        RlxError,
        RlxNameError,
        RlxRuntimeError,
        RlxShapeError,
        RlxSyntaxError,
        RlxTransformError,
        RlxTypeError,
        RlxValueError,
        RlxWarning,
    )
    from rlxlang.func import Func, Jitted
    from rlxlang.grad_mode import no_grad
    from rlxlang.gradient_check import check_grads
    from rlxlang.ir.parameter import Param
    from rlxlang.loading import check, expr, load, loads
    from rlxlang.schedules import LrSchedule
    from rlxlang.scope import GraphScope, Tensor, cat, stack
    from rlxlang.tools.fmt import format_source as format
    from rlxlang.trainer import Trainer

# Public name -> "module" or "module:attribute". tests/test_public_api.py keeps this table,
# __all__ and the block above in step.
_EXPORTS = {
    "Device": "rlxlang.device:Device",
    "Diagnostic": "rlxlang.diagnostics.diagnostic:Diagnostic",
    "Func": "rlxlang.func:Func",
    "GraphScope": "rlxlang.scope:GraphScope",
    "InternalError": "rlxlang.diagnostics.errors:InternalError",
    "Jitted": "rlxlang.func:Jitted",
    "LrSchedule": "rlxlang.schedules:LrSchedule",
    "Param": "rlxlang.ir.parameter:Param",
    "RlxBackendError": "rlxlang.diagnostics.errors:RlxBackendError",
    "RlxError": "rlxlang.diagnostics.errors:RlxError",
    "RlxNameError": "rlxlang.diagnostics.errors:RlxNameError",
    "RlxRuntimeError": "rlxlang.diagnostics.errors:RlxRuntimeError",
    "RlxShapeError": "rlxlang.diagnostics.errors:RlxShapeError",
    "RlxSyntaxError": "rlxlang.diagnostics.errors:RlxSyntaxError",
    "RlxTransformError": "rlxlang.diagnostics.errors:RlxTransformError",
    "RlxTypeError": "rlxlang.diagnostics.errors:RlxTypeError",
    "RlxValueError": "rlxlang.diagnostics.errors:RlxValueError",
    "RlxWarning": "rlxlang.diagnostics.errors:RlxWarning",
    "Tensor": "rlxlang.scope:Tensor",
    "Trainer": "rlxlang.trainer:Trainer",
    "cache_info": "rlxlang.device:cache_info",
    "cat": "rlxlang.scope:cat",
    "check": "rlxlang.loading:check",
    "check_grads": "rlxlang.gradient_check:check_grads",
    "clear_cache": "rlxlang.device:clear_cache",
    "cond": "rlxlang.combinators:cond",
    "custom_jvp": "rlxlang.combinators:custom_jvp",
    "custom_vjp": "rlxlang.combinators:custom_vjp",
    "debug_checks": "rlxlang.debugging:debug_checks",
    "debug_nans": "rlxlang.debugging:debug_nans",
    "devices": "rlxlang.device:devices",
    "expr": "rlxlang.loading:expr",
    "fastest_device": "rlxlang.device:fastest_device",
    "fastest_device_for": "rlxlang.device:fastest_device_for",
    "format": "rlxlang.tools.fmt:format_source",
    "load": "rlxlang.loading:load",
    "loads": "rlxlang.loading:loads",
    "no_grad": "rlxlang.grad_mode:no_grad",
    "lowp": "rlxlang.lowp",
    "optim": "rlxlang.optim",
    "remat": "rlxlang.combinators:remat",
    "scan": "rlxlang.combinators:scan",
    "set_threads": "rlxlang.device:set_threads",
    "stack": "rlxlang.scope:stack",
    "threads": "rlxlang.device:threads",
    "trace": "rlxlang.debugging:trace",
    "training": "rlxlang.training",
    "while_loop": "rlxlang.combinators:while_loop",
}

__all__ = [
    "Device",
    "Diagnostic",
    "Func",
    "GraphScope",
    "InternalError",
    "Jitted",
    "LrSchedule",
    "Param",
    "RlxBackendError",
    "RlxError",
    "RlxNameError",
    "RlxRuntimeError",
    "RlxShapeError",
    "RlxSyntaxError",
    "RlxTransformError",
    "RlxTypeError",
    "RlxValueError",
    "RlxWarning",
    "Tensor",
    "Trainer",
    "__version__",
    "cache_info",
    "cat",
    "check",
    "check_grads",
    "clear_cache",
    "cond",
    "custom_jvp",
    "custom_vjp",
    "debug_checks",
    "debug_nans",
    "devices",
    "expr",
    "fastest_device",
    "fastest_device_for",
    "format",
    "load",
    "loads",
    "lowp",
    "no_grad",
    "optim",
    "remat",
    "scan",
    "set_threads",
    "stack",
    "threads",
    "trace",
    "training",
    "while_loop",
]


def __getattr__(name: str) -> object:
    """Import a public name on first use and remember it (PEP 562)."""
    target = _EXPORTS.get(name)
    if target is None:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    module_name, _, attribute = target.partition(":")
    module = import_module(module_name)
    value: object = getattr(module, attribute) if attribute else module
    globals()[name] = value
    return value


def load_ipython_extension(shell: Any) -> None:
    """What `%load_ext rlxlang` calls: the magics `%%rlx` and `%rlx` (see `rlxlang.notebook`)."""
    import_module("rlxlang.notebook").load_ipython_extension(shell)


def unload_ipython_extension(shell: Any) -> None:
    """What `%unload_ext rlxlang` calls."""
    import_module("rlxlang.notebook").unload_ipython_extension(shell)


def __dir__() -> list[str]:
    """List what is loaded and what can be."""
    return sorted({*globals(), *__all__})
