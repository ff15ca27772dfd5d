"""Sources, spans, diagnostics and the exceptions that carry them."""

from __future__ import annotations

from rlxlang.diagnostics.codes import CODES, Code
from rlxlang.diagnostics.diagnostic import Diagnostic, Frame, Label, Severity, error, not_utf8, warning
from rlxlang.diagnostics.errors import (
    Collector,
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
    error_class,
    raise_all,
    warn_all,
)
from rlxlang.diagnostics.render import display_width, render, render_all
from rlxlang.diagnostics.source import Source, Span, escape
from rlxlang.diagnostics.suggest import did_you_mean, nearest

__all__ = [
    "CODES",
    "Code",
    "Collector",
    "Diagnostic",
    "Frame",
    "InternalError",
    "Label",
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
    "Severity",
    "Source",
    "Span",
    "did_you_mean",
    "display_width",
    "error",
    "error_class",
    "escape",
    "nearest",
    "not_utf8",
    "raise_all",
    "render",
    "render_all",
    "warn_all",
    "warning",
]
