"""Texts of every degree of brokenness, and what must hold for all of them: used by `test_fuzz.py` and `tools/fuzz_frontend.py`."""

from __future__ import annotations

import ast as python
import json
import random
import re
import signal
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from types import FrameType
from typing import Any

from rlxlang import loading
from rlxlang.diagnostics import Diagnostic, InternalError, RlxError, Source, render
from rlxlang.frontend.elaborate import elaborate_parsed
from rlxlang.frontend.format import format_text
from rlxlang.frontend.highlight import RlxLexer
from rlxlang.frontend.parse import ParseResult, parse_expression, parse_module
from rlxlang.frontend.walk import structurally_equal
from rlxlang.tools.check import record
from rlxlang.tools.lsp.analysis import Document, analyse

ROOT = Path(__file__).parents[2]
SECONDS = 2.0  # of processor time, for one part of the front end
PARTS = ("parse", "elaborate", "format", "highlight", "analyse", "expression", "file")

_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*|\*/|\w+|\.\.=|\.\.\.|\.\.|\*\*|::|[=!<>]=|\s+|.', re.DOTALL)
_ODD = (
    "0", "-1", "1e400", "99999999999999999999", "1000000000", "0x", "0xffu8", "1.", ".5", "1..2", "1e-50", "300u8",
    "?", "?n", "?1", "inf", "nan", "true", "none", "[]", "[1, 2]", "()", "{}", "//", "///", "/*", "*/", "é", "\ufeff",
    "\0", "\u202e", "\u200b", "\u2028", "\x85", "\x0b", "\r\n", "\r", "\ud800", "\U0001f642", "−", "“", "'", "#", "$",
    "\\", "`", "&", "~", "!", "|", "^", "&&", "||", "->", "=>", "+=", "::", "..", "...", "..=", "by", "new", "as",
    "in", "max", "over", "reverse", "let", "out", "tap", "fn f(x) {", "block b(x) {", "vjp f(x, g) {",
    "jvp f(x; d) {", "repeat 3 {", "repeat i in 0..3 {", "scan s = x for 3 {", "loop s = x while s < 3 max 4 {",
    "if true {", "if x > 0 {", "} else {", "}", ";", ",", "return x;", "emit x as y;", "use nn;", "bind t;",
    "use nn::{dense};", "use init::*;", "param w: [3];", "input x: [?n, 3];", "const c = [[1, 2], [3]] : I8;",
    "config d = 3;", "graph \"g\";", "grad(y, x)", "dim(x, 0)", "x[0]", "x[.., new]", "w[i]", ".sum()", ".t()",
    "DType::F16", "MaskKind::Causal", "nn::dense(x, 4)", "zeros([1000000000, 1000000000])", "arange(1000000000000)",
    "stack([x, x])", "split(x, 0, 3)", "cast(x, I32)", "w[1000000000]", "remat",
)  # fmt: skip
_WORDS = (
    "x", "y", "w", "h", "i", "n", "f", "b", "d", "relu", "sum", "matmul", "concat", "softmax", "where", "max",
    "zeros", "1", "2", "3", "0.5", "let ", "out ", "input ", "param ", "const ", "config ", "fn ", "block ",
    "repeat ", "scan ", "loop ", "if ", "else ", "for ", "over ", "in ", "while ", "return ", "emit ", "use ", "as ",
    "(", ")", "[", "]", "{", "}", "=", ";", ";\n", ",", ":", ".", "+", "-", "*", "/", "@", "**", "%", " div ", "==",
    "<", "&", "|", "!", " ", "\n",
)  # fmt: skip
_BEFORE = """config d = 4; config on = true; input x: [?b, d]; input y: [4, 4]; input ids: [I32; ?b];
param w[3]: [d, d]; const c = 0.5 : F32;
fn f(x, n: int = 2) { return x * n; } block b(v) { param p: [4] = zeros(); let r = v + p; } let h = x @ y; let n = 3; let i = 1;
"""


class Overrun(BaseException):
    """The time for one text is over; no handler of the code under test catches this."""


# ------------------------------------------------------------------------------------------------ texts


@lru_cache(maxsize=1)
def valid_texts() -> tuple[str, ...]:
    """The models of the repository, and the programs that stand in its tests."""
    folders = ("examples", "benchmarks", "stdlib", "tests")
    files = sorted(path for folder in folders for path in (ROOT / folder).rglob("*.rlx"))
    found = [path.read_text(encoding="utf-8") for path in files]
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for node in python.walk(python.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, python.Constant) and isinstance(node.value, str) and ";" in node.value:
                found.append(node.value)
    found = [text for text in dict.fromkeys(found) if 8 < len(text) < 4000]
    return tuple(text for text in found if not parse_module(Source("seed", text)).errors)


def tokens(text: str) -> list[str]:
    """A text in pieces that join to it."""
    return _TOKEN.findall(text)


class Texts:
    """Makes broken texts.

    Args:
        seed: Of all chance.
        valid: Texts to start from; short ones and those of middle length are taken more often.
    """

    def __init__(self, seed: int, valid: Sequence[str]) -> None:
        self.rng = random.Random(seed)
        self.valid = [tokens(text) for text in valid]
        self.short = [pieces for pieces in self.valid if len(pieces) < 300]
        self.middle = [pieces for pieces in self.short if len(pieces) > 60]

    def one(self) -> str:
        """One text."""
        kind = self.rng.random()
        if kind < 0.07:
            return self._characters()
        if kind < 0.2:
            words = _WORDS if self.rng.random() < 0.7 else (*_WORDS, *_ODD)
            return "".join(
                self.rng.choice(words) + " " * (self.rng.random() < 0.3) for _ in range(self.rng.randrange(1, 50))
            )
        pieces = list(self.rng.choice(self.rng.choices((self.short, self.middle, self.valid), (30, 60, 10))[0]))
        if self.rng.random() < 0.4:
            pieces = tokens(_BEFORE) + pieces
        for _ in range(self.rng.choice((0, 1, 1, 1, 2, 2, 3, 5))):
            self._change(pieces)
        text = "".join(pieces)
        if self.rng.random() < 0.03:
            text = self.rng.choice(
                ("\ufeff" + text, text.replace("\n", "\r\n"), text.replace("\n", "\r"), text.replace(" ", "\u00a0"))
            )
        return text

    def data(self) -> bytes:
        """The content of a file, perhaps not UTF-8."""
        data = bytearray(self.one().encode("utf-8", "surrogatepass"))
        for _ in range(self.rng.randrange(3)):
            place = self.rng.randrange(len(data) + 1)
            data[place : place + self.rng.randrange(2)] = self.rng.randbytes(self.rng.randrange(1, 4))
        return bytes(data)

    def _characters(self) -> str:
        rng = self.rng
        ranges = ((0, 0x7F), (32, 126), (0, 0xFFFF), (0x2000, 0x206F), (0, 0x10FFFF))
        return "".join(chr(rng.randint(*rng.choice(ranges))) for _ in range(rng.randrange(60)))

    def _change(self, pieces: list[str]) -> None:
        """One accident."""
        rng = self.rng
        start = rng.randrange(len(pieces) + 1)
        stop = min(len(pieces), start + rng.choice((1, 1, 1, 2, 3, 8, 30)))
        accident = rng.randrange(12)
        if accident == 0:
            del pieces[start:stop]
        elif accident == 1:
            pieces[start:start] = pieces[start:stop]
        elif accident == 2:
            pieces[start:stop] = [rng.choice(_ODD)]
        elif accident == 3:
            pieces.insert(start, rng.choice(_ODD))
        elif accident == 4:
            pieces.insert(start, rng.choice(_WORDS))
        elif accident == 5 and rng.random() < 0.3:
            del pieces[start:]
        elif accident == 6:
            other = rng.choice(self.short)
            begin = rng.randrange(len(other) + 1)
            pieces[start:stop] = other[begin : begin + rng.randrange(20)]
        elif accident == 7 and pieces:
            one, two = rng.randrange(len(pieces)), rng.randrange(len(pieces))
            pieces[one], pieces[two] = pieces[two], pieces[one]
        elif accident == 8 and rng.random() < 0.2:
            pieces[start:start] = pieces[start:stop] * rng.choice((3, 20, 100))
        elif accident == 9:
            names = [k for k, piece in enumerate(pieces) if piece.isidentifier()]
            if len(names) > 1:
                pieces[rng.choice(names)] = pieces[rng.choice(names)]
        elif accident == 10:
            numbers = [k for k, piece in enumerate(pieces) if piece.isdigit()]
            if numbers:
                pieces[rng.choice(numbers)] = rng.choice(
                    ("0", "-1", "1", "2", "7", "2.5", "true", "1000000000", "?q", '"s"', "x")
                )
        else:
            lines = "".join(pieces).split(";")
            rng.shuffle(lines)
            pieces[:] = tokens(";".join(lines))


# ------------------------------------------------------------------------------------------------ what must hold


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise `Overrun` inside after so much processor time (on systems that can)."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Overrun

    if not hasattr(signal, "setitimer"):
        yield
        return
    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def failure(text: str, part: str, seconds: float = SECONDS) -> str:
    """What goes wrong in one part of the front end, empty when nothing does; the same fault gives the same words."""
    try:
        with limited(seconds):
            _CHECKS[part](text)
    except Overrun:
        return f"{part}: takes more than {seconds:g} s"
    except InternalError as problem:
        return f"{part}: {problem.diagnostics[0].message}"
    except RlxError as problem:
        _report(problem.diagnostics)
    except Exception as problem:
        place = problem.__traceback__
        where = ""
        while place is not None:
            code = place.tb_frame.f_code
            if "rlxlang" in code.co_filename or "fuzzing" in code.co_filename:
                where = f"{Path(code.co_filename).name}:{code.co_name}:{place.tb_lineno}"
            place = place.tb_next
        words = str(problem)[:60] if isinstance(problem, AssertionError) else ""
        return f"{part}: {type(problem).__name__} {words} at {where}"
    return ""


def shrunk(text: str, fails: Callable[[str], bool], most: int = 400) -> str:
    """A shorter text that fails, too: lines, tokens and characters are left out while it does."""
    split: tuple[Callable[[str], list[str]], ...] = (lambda t: t.splitlines(keepends=True), tokens, list)
    tries = 0
    for pieces_of in split:
        pieces = pieces_of(text)
        size = max(1, len(pieces) // 2)
        while size and tries < most:
            place = 0
            while place < len(pieces) and tries < most:
                shorter = pieces[:place] + pieces[place + size :]
                tries += 1
                if fails("".join(shorter)):
                    pieces = shorter
                else:
                    place += size
            size //= 2
        text = "".join(pieces)
    return text


@lru_cache(maxsize=4)
def _parsed(text: str) -> ParseResult:
    return parse_module(Source("t.rlx", text))


def _report(diagnostics: Sequence[Diagnostic], *, as_json: bool = False) -> None:
    for diagnostic in diagnostics:
        assert diagnostic.code != "E0001", diagnostic.message
        forms = [
            render(diagnostic),
            *([json.dumps(record("t.rlx", diagnostic), ensure_ascii=False)] if as_json else []),
        ]
        for shown in forms:
            shown.encode("utf-8")
            if not shown.isascii():
                odd = [c for c in shown if unicodedata.category(c) in ("Cc", "Cs", "Cn") and c != "\n"]
                assert not odd, "a character that is not printable is shown"
        for label in diagnostic.labels:
            assert label.span.end <= len(label.span.source.text), "a label ends behind the text"


def _unreadable(path: Path) -> str:
    raise FileNotFoundError(2, "no such file", str(path))


def _parse(text: str) -> None:
    result = _parsed(text)
    _report(result.diagnostics)
    assert result.module is not None or result.errors


def _elaborate(text: str) -> None:
    found = elaborate_parsed(_parsed(text), read=_unreadable)
    _report(found.diagnostics)
    assert (found.graph is None) == any(d.is_error for d in found.diagnostics), "a graph with errors, or none without"


def _format(text: str) -> None:
    before = _parsed(text)
    if before.errors or before.module is None:
        return
    once = format_text(text)
    assert format_text(once) == once, "formatting twice changes the text"
    after = parse_module(Source("t.rlx", once)).module
    if "&" not in text:  # `&e` means `e`, and is left out
        assert after is not None
        assert structurally_equal(before.module, after), "formatting changes the tree"


def _highlight(text: str) -> None:
    assert "".join(value for _, _, value in RlxLexer().get_tokens_unprocessed(text)) == text, (
        "highlighting changes the text"
    )


def _analyse(text: str) -> None:
    found = analyse(Document("/t/t.rlx", text), _unreadable)
    _report(found.diagnostics, as_json=True)


def _expression(text: str) -> None:
    result = parse_expression(Source("t.rlx", text))
    _report(result.diagnostics)


def _file(text: str) -> None:
    _report(loading.check(text if not loading._is_path(text) else text + "\n"))


_CHECKS: dict[str, Callable[[str], Any]] = {
    "parse": _parse,
    "elaborate": _elaborate,
    "format": _format,
    "highlight": _highlight,
    "analyse": _analyse,
    "expression": _expression,
    "file": _file,
}
