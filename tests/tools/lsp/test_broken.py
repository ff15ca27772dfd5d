"""Broken texts: whatever is typed, every question is answered and nothing is an internal error."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from rlxlang.tools.lsp.actions import repairs
from rlxlang.tools.lsp.complete import complete
from rlxlang.tools.lsp.hints import hints
from rlxlang.tools.lsp.hover import hover
from rlxlang.tools.lsp.outline import folds, symbols
from rlxlang.tools.lsp.rename import Refused, rename
from rlxlang.tools.lsp.signatures import signature
from rlxlang.tools.lsp.tokens import tokens
from rlxlang.tools.lsp.workspace import Workspace

MODELS = Path(__file__).parent / "models"
BENCHMARKS = Path(__file__).parents[3] / "benchmarks" / "models"
JUNK = (
    "(", "[", "{", "}", ")", "]", ";", '"', "/*", "//", ".", "::", "let ", "fn f(", " as ", "use ", "?", "🙂", "\r\n", "=", "@",
    "param ", "repeat ", "0x", "..", "\\", "\0", "\u2028", "if ", "emit ", "block b(", "vjp ", "grad(", "none",
)  # fmt: skip


def texts() -> list[str]:
    return [file.read_text() for file in (*sorted(MODELS.glob("*.rlx")), *sorted(BENCHMARKS.glob("*.rlx")))]


def mutated(text: str, rng: random.Random) -> str:
    """A text with one to three accidents."""
    for _ in range(rng.randrange(1, 4)):
        start = rng.randrange(len(text) + 1)
        stop = min(len(text), start + rng.randrange(40))
        accident = rng.randrange(5)
        if accident == 0:
            text = text[:start]
        elif accident == 1:
            text = text[:start] + text[stop:]
        elif accident == 2:
            text = text[:start] + rng.choice(JUNK) + text[start:]
        elif accident == 3:
            text = text[:start] + text[stop : stop + 30] + text[start:]
        else:
            lines = text.split("\n")
            first, second = rng.randrange(len(lines)), rng.randrange(len(lines))
            lines[first], lines[second] = lines[second], lines[first]
            text = "\n".join(lines)
    return text


@pytest.mark.parametrize("part", range(4))
def test_questions_about_broken_texts(part: int, pytestconfig: pytest.Config) -> None:
    rng = random.Random(pytestconfig.getoption("--seed") * 4 + part)
    sources = texts()
    for _ in range(12):
        text = mutated(rng.choice(sources), rng)
        workspace = Workspace()
        path = str(MODELS / "broken.rlx")
        workspace.open(path, text)
        document, analysis = workspace.document(path), workspace.analysis(path)
        assert document is not None
        assert analysis is not None
        for diagnostic in analysis.diagnostics:
            assert diagnostic.code != "E0001", text
            repairs(document, diagnostic)
        for offset in (*(rng.randrange(len(text) + 1) for _ in range(6)), len(text)):
            hover(workspace, analysis, offset)
            complete(workspace, document, offset, analysis)
            signature(workspace, document, offset)
            for occurrence in document.index.at(offset):
                workspace.occurrences(occurrence, document)
                try:
                    edits = rename(workspace, document, offset, "renamed")
                except Refused:
                    continue
                assert all(edit.span.text for edit in edits), text
        for symbol in symbols(document, analysis):
            assert symbol.whole.start <= symbol.name.start <= symbol.name.end <= symbol.whole.end
        assert all(fold.start < fold.stop for fold in folds(document))
        assert all(0 <= hint.offset <= len(text) for hint in hints(workspace, analysis, 0, len(text)))
        places = tokens(workspace, document)
        assert all(a.end <= b.start for a, b in pairwise(places))


def test_a_session_of_broken_texts(client: Any, pytestconfig: pytest.Config) -> None:
    rng = random.Random(pytestconfig.getoption("--seed"))
    sources = texts()
    uri = client.open("broken.rlx", "")
    for _ in range(12):
        text = mutated(rng.choice(sources), rng)
        client.change(uri, text)
        place = {"textDocument": {"uri": uri}, "position": client.position(uri, rng.randrange(len(text) + 1))}
        whole = {"start": {"line": 0, "character": 0}, "end": {"line": 9999, "character": 0}}
        for method, more in (
            ("hover", place),
            ("definition", place),
            ("completion", place),
            ("signatureHelp", place),
            ("documentHighlight", place),
            ("references", {**place, "context": {"includeDeclaration": True}}),
            ("documentSymbol", {"textDocument": {"uri": uri}}),
            ("foldingRange", {"textDocument": {"uri": uri}}),
            ("semanticTokens/full", {"textDocument": {"uri": uri}}),
            ("formatting", {"textDocument": {"uri": uri}, "options": {"tabSize": 2, "insertSpaces": True}}),
            ("inlayHint", {"textDocument": {"uri": uri}, "range": whole}),
            ("codeAction", {"textDocument": {"uri": uri}, "range": whole, "context": {"diagnostics": []}}),
        ):
            client.request(f"textDocument/{method}", **more)
        assert all(d["code"] != "E0001" for d in client.published(uri)), text
    client.close(uri)
