"""The closed set of diagnostic codes. A code is never reused.

Ranges: E01 syntax, E02 names, imports and arguments, E03 types and dtypes, E04 shapes and axes,
E05 transforms, E06 expansion (repeat, fn, block, scan), E07 backends, E08 run time, W09 warnings; E0001 is
a fault of the compiler itself. `xx00` is the general code of its range, used where no closer one exists.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Code:
    """One row: the code, what it means in a few words, and the exception class that reports it."""

    code: str
    title: str
    exception: str

    @property
    def is_warning(self) -> bool:
        """Whether the code reports a warning."""
        return self.code.startswith("W")


_SYNTAX = "RlxSyntaxError"
_NAME = "RlxNameError"
_TYPE = "RlxTypeError"
_SHAPE = "RlxShapeError"
_VALUE = "RlxValueError"
_TRANSFORM = "RlxTransformError"
_BACKEND = "RlxBackendError"
_RUNTIME = "RlxRuntimeError"
_WARNING = "RlxWarning"
_INTERNAL = "InternalError"

_ROWS = (
    Code("E0001", "internal error", _INTERNAL),
    # -- E01 syntax
    Code("E0100", "syntax error", _SYNTAX),
    Code("E0101", "unexpected word or symbol", _SYNTAX),
    Code("E0102", "unexpected character", _SYNTAX),
    Code("E0103", "`;` is missing", _SYNTAX),
    Code("E0104", "bracket or brace is never closed", _SYNTAX),
    Code("E0105", "comment is never closed", _SYNTAX),
    Code("E0106", "string is not closed on its line", _SYNTAX),
    Code("E0107", "malformed number", _SYNTAX),
    Code("E0108", "unknown escape in a string", _SYNTAX),
    Code("E0109", "not the beginning of a statement", _SYNTAX),
    Code("E0110", "an expression is missing", _SYNTAX),
    Code("E0111", "operator of another language", _SYNTAX),
    Code("E0112", "form of another language", _SYNTAX),
    Code("E0113", "comparisons do not chain", _SYNTAX),
    Code("E0114", "`as` follows something that is not a block call", _SYNTAX),
    Code("E0115", "range where none may stand", _SYNTAX),
    Code("E0116", "statement where it may not stand", _SYNTAX),
    Code("E0117", "`graph` is not the first statement", _SYNTAX),
    Code("E0118", "`return` is not the last statement", _SYNTAX),
    Code("E0119", "body without a result", _SYNTAX),
    Code("E0120", "output or emitted value without a name", _SYNTAX),
    Code("E0121", "declaration without a shape", _SYNTAX),
    Code("E0122", "declaration without a type or a default", _SYNTAX),
    Code("E0123", "range with an end missing", _SYNTAX),
    Code("E0124", "ragged or empty array", _SYNTAX),
    Code("E0125", "literal does not fit its suffix", _SYNTAX),
    Code("E0126", "malformed name, or placeholder in one", _SYNTAX),
    Code("E0127", "text is not valid UTF-8", _SYNTAX),
    Code("E0128", "file cannot be read", _SYNTAX),
    # -- E02 names, imports, arguments
    Code("E0200", "name error", _NAME),
    Code("E0201", "unknown name", _NAME),
    Code("E0202", "unknown fn, block or op", _NAME),
    Code("E0203", "unknown module or file", _NAME),
    Code("E0204", "module has no such item", _NAME),
    Code("E0205", "unknown config", _NAME),
    Code("E0206", "unknown output or tap", _NAME),
    Code("E0207", "unknown attribute or method", _NAME),
    Code("E0208", "unknown dtype", _NAME),
    Code("E0209", "unknown type of a config or parameter", _NAME),
    Code("E0210", "name is declared twice", _NAME),
    Code("E0211", "name is listed twice", _NAME),
    Code("E0212", "run-time name is used twice", _NAME),
    Code("E0213", "name cannot be rebound", _NAME),
    Code("E0214", "modules import each other", _NAME),
    Code("E0215", "value is not bound", _NAME),
    Code("E0220", "wrong number of arguments", _TYPE),
    Code("E0221", "unknown named argument", _TYPE),
    Code("E0222", "argument is given twice", _TYPE),
    Code("E0223", "argument is missing", _TYPE),
    Code("E0224", "positional argument after a named one", _SYNTAX),
    Code("E0225", "parameter without a default after one with a default", _SYNTAX),
    # -- E03 types, dtypes
    Code("E0300", "type error", _TYPE),
    Code("E0301", "dtype is not allowed here", _TYPE),
    Code("E0302", "dtypes differ", _TYPE),
    Code("E0303", "static value expected", _TYPE),
    Code("E0304", "tensor expected", _TYPE),
    Code("E0305", "wrong type of a config", _TYPE),
    Code("E0306", "wrong type of an option", _TYPE),
    Code("E0350", "value is not allowed", _VALUE),
    Code("E0351", "literal is out of range for its dtype", _VALUE),
    Code("E0352", "static arithmetic error", _VALUE),
    Code("E0353", "config is not given", _VALUE),
    # -- E04 shapes, axes
    Code("E0400", "shape error", _SHAPE),
    Code("E0401", "shapes do not broadcast", _SHAPE),
    Code("E0402", "inner sizes of a product differ", _SHAPE),
    Code("E0403", "axis is out of range", _SHAPE),
    Code("E0404", "wrong rank", _SHAPE),
    Code("E0405", "number of elements differs", _SHAPE),
    Code("E0406", "index is out of range", _SHAPE),
    Code("E0407", "size does not divide", _SHAPE),
    Code("E0408", "counts of names and values differ", _SHAPE),
    Code("E0409", "empty axis", _SHAPE),
    # -- E05 transforms
    Code("E0500", "transform error", _TRANSFORM),
    Code("E0501", "not differentiable", _TRANSFORM),
    Code("E0502", "unknown input, param or output of a transform", _TRANSFORM),
    Code("E0503", "loss is not one element", _TRANSFORM),
    Code("E0504", "derivative is wrong", _TRANSFORM),
    # -- E06 expansion
    Code("E0600", "expansion error", _VALUE),
    Code("E0601", "recursion of fn or block", _VALUE),
    Code("E0602", "count is not valid", _VALUE),
    Code("E0603", "carry changes its shape or dtype", _SHAPE),
    Code("E0604", "branches disagree", _SHAPE),
    Code("E0605", "no output", _VALUE),
    Code("E0607", "text is nested too deeply", _VALUE),
    # -- E07 backends
    Code("E0700", "backend error", _BACKEND),
    Code("E0701", "device is not available", _BACKEND),
    Code("E0702", "backend cannot compile this", _BACKEND),
    # -- E08 run time
    Code("E0800", "run-time error", _RUNTIME),
    Code("E0801", "size guard failed", _RUNTIME),
    Code("E0803", "input or param is missing", _RUNTIME),
    Code("E0805", "wrong shape of an input or param", _SHAPE),
    Code("E0806", "wrong dtype of an input or param", _TYPE),
    Code("E0807", "unknown input or param", _NAME),
    Code("E0808", "sizes of one axis disagree", _SHAPE),
    Code("E0809", "param is not bound", _RUNTIME),
    Code("E0810", "value does not fit its dtype", _VALUE),
    Code("E0811", "size of an axis is unknown", _RUNTIME),
    Code("E0812", "value is no array", _TYPE),
    Code("E0813", "value is NaN or infinite", _RUNTIME),
    Code("E0814", "matrix has no such result", _RUNTIME),
    Code("E0815", "position is outside of its axis", _RUNTIME),
    # -- W09 warnings
    Code("W0900", "warning", _WARNING),
    Code("W0901", "comment that reads like code", _WARNING),
    Code("W0902", "unused input, param or binding", _WARNING),
    Code("W0903", "name hides an op", _WARNING),
    Code("W0904", "literal becomes zero in its dtype", _WARNING),
    Code("W0905", "carry keeps its value", _WARNING),
    Code("W0906", "slice bound is clamped", _WARNING),
    Code("W0907", "dtype is converted", _WARNING),
    Code("W0908", "number can only be NaN or infinite", _WARNING),
)

CODES: dict[str, Code] = {row.code: row for row in _ROWS}
