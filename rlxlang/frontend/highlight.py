"""A Pygments lexer for the language: documentation, notebooks and terminals colour texts with it.

Pygments finds it through the entry point of the package; nothing else imports this module.
"""

from __future__ import annotations

from typing import Any, ClassVar

from pygments.lexer import RegexLexer, bygroups, words
from pygments.token import (
    Comment,
    Keyword,
    Name,
    Number,
    Operator,
    Punctuation,
    String,
    Whitespace,
)

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_DECLARATIONS = ("bind", "config", "const", "graph", "input", "let", "out", "output", "param", "tap")
_CONTROL = ("else", "emit", "if", "loop", "repeat", "return", "scan")
_WITHIN = ("as", "by", "for", "in", "max", "new", "over", "reverse", "while")
_TYPES = (
    "F32", "F64", "F16", "BF16", "I8", "I16", "I32", "I64", "U8", "U16", "U32", "U64", "Bool", "C64", "DType", "MaskKind",
)  # fmt: skip
_SUFFIX = r"(?:_?(?:[iu](?:8|16|32|64|size)|bf16|f16|f32|f64))?"


class RlxLexer(RegexLexer):  # type: ignore[misc]  # Pygments has no type information
    """Tokens of `.rlx` texts. Keywords are ordinary names before `(`, `.`, `=` and `:`, as in the language."""

    name = "RLX"
    aliases: ClassVar[list[str]] = ["rlx"]
    filenames: ClassVar[list[str]] = ["*.rlx"]
    mimetypes: ClassVar[list[str]] = ["text/x-rlx"]

    tokens: ClassVar[dict[str, Any]] = {
        "root": [
            (r"\s+", Whitespace),
            (r"///(?!/)[^\n]*", String.Doc),
            (r"//[^\n]*", Comment.Single),
            (r"/\*", Comment.Multiline, "comment"),
            (r'"', String, "string"),
            (rf"(remat)(\s+)(?=(?:fn|block)\s+{_NAME})", bygroups(Keyword.Declaration, Whitespace)),
            (
                rf"(fn|block|vjp|jvp)(\s+)({_NAME})",
                bygroups(Keyword.Declaration, Whitespace, Name.Function),
            ),
            (r"(use)(?=\s+[\"A-Za-z_])", Keyword.Namespace),
            (words(_DECLARATIONS, suffix=rf"(?=\s+(?:{_NAME}|[(\"]))", prefix=r"\b"), Keyword.Declaration),
            (words(_CONTROL, suffix=r"\b(?!\s*(?:=|:|\.(?!\.))|\()", prefix=r"\b"), Keyword),
            (words(_WITHIN, suffix=r"(?=\s+[^\s=:;,.)\]])", prefix=r"(?<=\s)"), Keyword),
            (r"\bnew\b(?=\s*[,\]])|\bvec(?=!\s*\[)", Keyword),
            (words(_TYPES, suffix=r"\b", prefix=r"\b"), Keyword.Type),
            (words(("true", "false", "inf", "nan", "pi", "none"), suffix=r"\b", prefix=r"\b"), Keyword.Constant),
            (r"\?[A-Za-z0-9_]*", Name.Variable),
            (rf"0[xX][0-9A-Fa-f_]+?{_SUFFIX}\b", Number.Hex),
            (rf"0[bB][01_]+?{_SUFFIX}\b", Number.Bin),
            (rf"(?:\d[\d_]*\.(?![.A-Za-z_])\d*|\.\d+|\d[\d_]*(?=[eE]))(?:[eE][+-]?\d+)?{_SUFFIX}", Number.Float),
            (rf"\d[\d_]*?{_SUFFIX}(?!\w)", Number.Integer),
            (rf"{_NAME}(?=\s*::)", Name.Namespace),
            (rf"{_NAME}(?=\s*\()", Name.Function),
            (r"div\b(?=\s*[\w(?.\-])", Operator.Word),
            (_NAME, Name),
            (r"\.\.=|\.\.\.|\.\.|::|\*\*|==|!=|<=|>=|->|[-+*/%@<>=!&|^~]", Operator),
            (r"[{}()\[\];:,.]", Punctuation),
        ],
        "comment": [
            (r"[^*/]+", Comment.Multiline),
            (r"/\*", Comment.Multiline, "#push"),
            (r"\*/", Comment.Multiline, "#pop"),
            (r"[*/]", Comment.Multiline),
        ],
        "string": [
            (r'\\(?:["\\nt]|u\{[0-9A-Fa-f]{1,6}\})', String.Escape),
            (r"\{\{|\}\}", String),
            (rf"\{{{_NAME}\}}", String.Interpol),
            (r'"', String, "#pop"),
            (r"\n", Whitespace, "#pop"),
            (r'[^"\\\n{}]+|[\\{}]', String),
        ],
    }
