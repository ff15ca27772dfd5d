"""Values of literals: numbers with suffixes, strings with escapes, names with `{places}`."""

from __future__ import annotations

import re
from typing import NamedTuple

from rlxlang.diagnostics import Diagnostic, Source, Span, error
from rlxlang.frontend import ast

_INT_SUFFIX = re.compile(r"_?([iu](?:8|16|32|64|size))$")
_FLOAT_SUFFIX = re.compile(r"_?(bf16|f16|f32|f64)$")
_PLACE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_UNICODE_ESCAPE = re.compile(r"u\{([0-9A-Fa-f]{1,6})\}")
_SIMPLE_ESCAPES = {'"': '"', "\\": "\\", "n": "\n", "t": "\t"}
_BASES = {"0x": 16, "0X": 16, "0b": 2, "0B": 2}
# Python refuses longer decimal texts in one piece.
_DIGITS_AT_ONCE = 4000

# A finite value from these bounds up rounds to infinity.
FLOAT_BOUNDS = {
    "f16": 65520.0,
    "bf16": float.fromhex("0x1.ffp+127"),
    "f32": float.fromhex("0x1.ffffffp+127"),
    "f64": float("inf"),
    "": float("inf"),
}


def int_bounds(suffix: str) -> tuple[int, int]:
    """Smallest and largest value of an integer suffix."""
    width = 64 if suffix.endswith("size") else int(suffix[1:])
    return (0, 2**width - 1) if suffix[0] == "u" else (-(2 ** (width - 1)), 2 ** (width - 1) - 1)


def parse_int(text: str) -> tuple[int, str]:
    """Value and suffix of an INT token, however long."""
    base = _BASES.get(text[:2], 10)
    suffix = ""
    if match := _INT_SUFFIX.search(text):
        text, suffix = text[: match.start()], match[1]
    digits = text.replace("_", "")
    if base != 10:
        return int(digits[2:], base), suffix
    value = 0
    for start in range(0, len(digits), _DIGITS_AT_ONCE):
        piece = digits[start : start + _DIGITS_AT_ONCE]
        value = value * 10 ** len(piece) + int(piece)
    return value, suffix


def parse_float(text: str) -> tuple[float, str]:
    """Value and suffix of a FLOAT token; infinite when it exceeds float64."""
    suffix = ""
    if match := _FLOAT_SUFFIX.search(text):
        text, suffix = text[: match.start()], match[1]
    return float(text.replace("_", "")), suffix


class _Char(NamedTuple):
    """One character of a string value, and the offset at which it is written."""

    text: str
    offset: int


def _unescape(source: Source, start: int, end: int, diagnostics: list[Diagnostic]) -> list[_Char]:
    """The characters between the quotes at `start` and `end - 1`."""
    text = source.text
    found = []
    position = start + 1
    while position < end - 1:
        char = text[position]
        if char != "\\":
            found.append(_Char(char, position))
            position += 1
            continue
        escaped = text[position + 1]
        if escaped in _SIMPLE_ESCAPES:
            found.append(_Char(_SIMPLE_ESCAPES[escaped], position))
            position += 2
            continue
        match = _UNICODE_ESCAPE.match(text, position + 1)
        code = int(match[1], 16) if match else -1
        if match and code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF:
            found.append(_Char(chr(code), position))
            position = match.end()
            continue
        stop = match.end() if match else position + 2
        place = Span(source=source, start=position, end=stop)
        helps = ['the escapes are `\\"`, `\\\\`, `\\n`, `\\t` and `\\u{…}`']
        message = "not a character" if match else "unknown escape in a string"
        diagnostics.append(error("E0108", message, place, helps=helps))
        found.append(_Char("\N{REPLACEMENT CHARACTER}", position))  # so that the string is not told to be empty, too
        position = stop
    return found


def parse_string(span: Span, diagnostics: list[Diagnostic]) -> str:
    """The value of the string written at `span`, quotes included.

    Diagnostics:
        E0108: unknown escape.
    """
    text = span.text
    if "\\" not in text:
        return text[1:-1]
    return "".join(char.text for char in _unescape(span.source, span.start, span.end, diagnostics))


def parse_template(span: Span, diagnostics: list[Diagnostic]) -> ast.Template:
    """The name written in quotes at `span`: text, `{name}` places, `{{` and `}}` for braces.

    Diagnostics:
        E0108: unknown escape.
        E0126: a brace that is neither doubled nor part of `{name}`.
    """
    chars = _unescape(span.source, span.start, span.end, diagnostics)
    value = "".join(char.text for char in chars)
    offsets = [char.offset for char in chars] + [span.end - 1]
    parts: list[str | ast.Name] = []
    literal: list[str] = []
    position = 0
    while position < len(value):
        char = value[position]
        if char not in "{}":
            literal.append(char)
            position += 1
            continue
        if value.startswith(char * 2, position):
            literal.append(char)
            position += 2
            continue
        name = _PLACE.match(value, position + 1) if char == "{" else None
        if name is None or not value.startswith("}", name.end()):
            place = Span(source=span.source, start=offsets[position], end=offsets[position] + 1)
            helps = ["a placeholder is written `{name}`, a brace itself `{{` or `}}`"]
            message = "`{` is not followed by a name and `}`" if char == "{" else "`}` without a `{name` before it"
            diagnostics.append(error("E0126", message, place, helps=helps))
            if name is None:
                position += 1
                continue
            value = value[: name.end()] + "}" + value[name.end() :]
            offsets.insert(name.end(), offsets[name.end()])
        if literal:
            parts.append("".join(literal))
            literal = []
        where = Span(source=span.source, start=offsets[name.start()], end=offsets[name.end()])
        parts.append(ast.Name(where, name[0]))
        position = name.end() + 1
    if literal or not parts:
        parts.append("".join(literal))
    return ast.Template(span, tuple(parts), quoted=True)
