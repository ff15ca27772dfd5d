"""What is proposed where; the same function completes in editors, the REPL and notebooks."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlxlang.frontend.checks import CONFIG_TYPES, DTYPES
from rlxlang.frontend.initializer_calls import INITIALIZERS
from rlxlang.ir import SURFACES
from rlxlang.tools.lsp.complete import Completion, complete, completions
from rlxlang.tools.lsp.words import AT_TOP, IN_BLOCK, IN_FUNCTION, IN_LOOP, IN_SCAN, STATEMENTS
from rlxlang.tools.lsp.workspace import Workspace

MODELS = Path(__file__).parent / "models"
HEAD = "config n = 2; input x: [?b, n]; fn f(v, k: int = 1) { return v; } let alpha = x;\n"


def proposals(text: str, name: str = "text.rlx") -> list[Completion]:
    """What is proposed at `|`."""
    workspace = Workspace()
    path = str(MODELS / name)
    workspace.open(path, text.replace("|", "", 1))
    document = workspace.document(path)
    assert document is not None
    return complete(workspace, document, text.index("|"), workspace.analysis(path))


def labels(text: str) -> list[str]:
    return [c.label for c in proposals(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("|", AT_TOP),
        ("input x: [2];\n|", [w for w in AT_TOP if w != "graph"]),
        ("fn f(x) { | }", IN_FUNCTION),
        ("block f(x) { let a = 1; | }", IN_BLOCK),
        ("fn f(x) { repeat 2 { | } return x; }", IN_LOOP),
        ("repeat 2 { |", IN_LOOP),
        ("scan h = 0 for 3 { | }", IN_SCAN),
        ("fn f(x) { if p { | } }", [w for w in IN_FUNCTION if w != "return"]),
        ("let a = f(1;\nlet b = 2;\n|", [w for w in AT_TOP if w != "graph"]),
    ],
)
def test_statements(text: str, expected: list[str]) -> None:
    assert sorted(labels(text)) == sorted(expected)


def test_keywords_are_snippets_with_what_they_do() -> None:
    found = next(c for c in proposals("conf|") if c.label == "config")
    assert (found.kind, found.detail, found.insert, found.snippet) == ("keyword", *STATEMENTS["config"], True)
    assert labels("conf|") == ["config"]


@pytest.mark.parametrize(
    "text",
    [
        "// re|", "/* re| */", "let re|", 'graph "re|";', "let a = fc(x) as re|", "fn re|", "let a = 1; /// re|", 'param w @ "re|": [2];',
        "config re|", "use nn as re|", "scan h = 0 over x in xs { emit h as re| }", "/* re|",
    ],
)  # fmt: skip
def test_nothing_is_proposed(text: str) -> None:
    assert labels(text) == []


def test_expressions() -> None:
    found = proposals(HEAD + "let y = |")
    by_label = {c.label: c for c in found}
    assert set(by_label) == {
        "n", "x", "alpha", "f", "?b", *(name for name in SURFACES if name.isidentifier()), "dim", "grad", "true", "false", "inf",
        "nan", "pi", "none", *DTYPES, "MaskKind", "DType",
    }  # fmt: skip
    assert [c.label for c in found[:4]] == ["alpha", "n", "x", "f"]
    assert (by_label["alpha"].kind, by_label["alpha"].detail) == ("value", "let alpha: [F32; ?b, 2]")
    assert (by_label["n"].kind, by_label["n"].detail) == ("config", "config n: int = 2")
    assert (by_label["f"].kind, by_label["f"].detail) == ("fn", "fn f(v, k: int = 1)")
    assert by_label["relu"] == Completion("relu", "op", "relu(x)", "max(x, 0); the derivative at 0 is 0.", rank=5)


@pytest.mark.parametrize(
    ("text", "best"),
    [
        ("let y = al|", ["alpha"]),
        ("let y = smxce|", ["softmax_cross_entropy"]),
        ("let y = ?|", ["?b"]),
        ("out al|", ["alpha"]),
        ("repeat |", ["alpha", "n", "x"]),
        ("let y = relu(al|)", ["alpha"]),
    ],
)
def test_what_has_been_typed_comes_first(text: str, best: list[str]) -> None:
    assert labels(HEAD + text)[: len(best)] == best[: len(best)]


def test_outputs_are_values() -> None:
    assert labels(HEAD + "out |") == ["alpha", "n", "x"]


def test_parameters_and_inner_names_are_in_sight_inside_alone() -> None:
    text = HEAD + "fn g(q) { let r = q; let s = |; return s; } let beyond = 1;"
    found = labels(text)
    assert {"q", "r", "n", "x", "alpha"} <= set(found)
    assert not {"beyond", "s"} & set(found)
    assert found[:2] == ["q", "r"]


def test_methods() -> None:
    found = proposals(HEAD + "let y = x.|")
    kinds = {c.kind for c in found}
    assert kinds == {"op", "fn"}
    names = {c.label for c in found}
    assert {"relu", "sum", "softmax", "f", "dim", "select"} <= names
    assert not {"concat", "stack", "alpha", "n"} & names
    found_first = [label for label in labels(HEAD + "let y = relu(x).su|") if label.startswith("su")]
    assert {"sub", "sum"} <= set(found_first)
    assert found_first == labels(HEAD + "let y = relu(x).su|")[: len(found_first)]


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("let y = softmax(|", ["axis:"]),
        ("let y = x.softmax(|", ["axis:"]),
        ("let y = x.sum(|", ["axes:", "keep_dim:"]),
        ("let y = x.sum(0, |", ["keep_dim:"]),
        ("let y = x.sum(keep_dim: true, |", ["axes:"]),
        ("let y = f(|", ["k:", "v:"]),
        ("let y = x.f(k: 2, |", ["v:"]),
        ("param w: [2] = normal(|", ["mean:", "std:"]),
        ("let y = relu(|", []),
    ],
)
def test_options(text: str, options: list[str]) -> None:
    found = [c for c in proposals(HEAD + text) if c.kind == "option"]
    assert sorted(c.label for c in found) == options
    assert all(c.insert == f"{c.label} " for c in found)


@pytest.mark.parametrize(
    ("text", "best"),
    [
        ("let y = x.sum(keep_dim: |", ["false", "true"]),
        ("let y = attention(x, x, x, 1, 2, mask: |", ["MaskKind::Causal", "MaskKind::None", "MaskKind::SlidingWindow"]),
        ("let y = MaskKind::|", ["Causal", "None", "SlidingWindow"]),
        ("let y = DType::|", sorted(DTYPES)),
        ("let y = cast(x, |", sorted(DTYPES)),
        ("config m: |", sorted(CONFIG_TYPES)),
        ("fn g(a: |", ["bool", "float", "int", "str", "tensor"]),
        ("const c = 1 : |", sorted(DTYPES)),
        ("input y: [|", ["n", "?b"]),
        ("input y: [I32; |", ["n", "?b", "dim"]),
        ("param w: [2] = |", sorted(INITIALIZERS)),
        ("param w: [2] = init::|", sorted(INITIALIZERS)),
        ("vjp |", ["f"]),
        ("remat |", ["block", "fn"]),
    ],
)
def test_places_of_their_own(text: str, best: list[str]) -> None:
    found = [c.label for c in proposals(HEAD + text) if c.kind != "option" and c.label != "alpha"]
    wanted = [label for label in found if label in best]
    assert sorted(wanted[: len(best)]) == sorted(best)
    if "::" in text or "config" in text or "vjp" in text or text.startswith("fn"):
        assert sorted(found) == sorted(best)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("scan h = x |", ["div", "for", "over"]),
        ("scan h = x over r |", ["in"]),
        ("scan h = x over r in xs |", ["div", "reverse"]),
        ("scan h = x over r in xs rev|", ["reverse"]),
        ("loop i = 0 |", ["div", "while"]),
        ("loop i = 0 while i < 9 |", ["div", "max"]),
        ("repeat i |", ["div", "in"]),
        ("repeat 3 |", ["div"]),
        ("repeat i in 0..9 |", ["by", "div"]),
        ("let y = x[0..2 |", ["by", "div"]),
        ("let y = f(x) |", ["as", "div"]),
        ("let y = x + 1 |", ["as", "div"]),
        ("vjp f(|", []),
        ("fn g(a|", []),
    ],
)
def test_words_that_join(text: str, expected: list[str]) -> None:
    assert sorted(labels(HEAD + text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("if true { let a = 1; } |", True),
        ("if true { let a = 1; } else if false { let a = 2; } |", True),
        ("if true { let a = 1; } else { let a = 2; } |", False),
        ("if true { let a = 1; } let b = 2; |", False),
        ("repeat 2 { let a = 1; } |", False),
        ("repeat 2 { if true { let a = 1; } |", True),
        ("if true { let a = 1; |", False),
        ("}|", False),
    ],
)
def test_else(text: str, expected: bool) -> None:
    assert ("else" in labels(HEAD + text)) is expected


@pytest.mark.parametrize(
    "text", ["scan h = |", "scan h = x for |", "loop i = 0 while |", "repeat i in |", "if |", "let y = x div |"]
)
def test_expressions_after_words_that_join(text: str) -> None:
    assert {"alpha", "x", "relu"} <= set(labels(HEAD + text))


def test_modules() -> None:
    found = {c.label: c.kind for c in proposals("use |")}
    assert found["nn"] == "module"
    assert found["init"] == "module"
    assert labels('use "|') == ["blocks.rlx", "main.rlx"]
    assert labels('use "bl|') == ["blocks.rlx"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('use "blocks.rlx"::{|', ["dense", "half", "pair", "scale", "twice"]),
        ('use "blocks.rlx"::{dense, |};', ["half", "pair", "scale", "twice"]),
        ('use "blocks.rlx"::{dense, tw|};', ["twice"]),
        ('use "blocks.rlx" as b; let y = b::|', ["dense", "half", "pair", "scale", "twice"]),
        ('use "blocks.rlx" as b; let y = b::pa|', ["pair"]),
        ('use "blocks.rlx"; let y = dense_|', []),
        ('use "blocks.rlx"::{dense as d1}; input x: [2]; let h = d1(x, 3) as fc; let y = fc.|', ["b", "w"]),
        ('use "blocks.rlx"::{pair}; input x: [2]; let h = pair(x, 3) as p; let y = p.|', ["inner", "outer"]),
        ('use "none.rlx"::{|', []),
    ],
)
def test_other_files(text: str, expected: list[str]) -> None:
    assert sorted(labels(text)) == expected


def test_imported_names() -> None:
    found = {c.label: c for c in proposals('use "blocks.rlx"::{dense as d1, half}; use "blocks.rlx" as b; let y = |')}
    assert found["b"].kind == "module"
    assert found["half"].detail == "const half"
    assert "scale" not in found
    everything = {c.label for c in proposals('use "blocks.rlx"::*; let y = |')}
    assert {"dense", "half", "pair", "scale", "twice"} <= everything


def test_stdlib_items_have_their_docs() -> None:
    found = {c.label: c for c in proposals("use nn; let y = nn::|")}
    assert found
    assert all(c.kind in ("fn", "block", "config", "value") for c in found.values())
    assert any(c.doc for c in found.values())


def test_outside_of_an_editor() -> None:
    text = HEAD + "let beta = alpha;\n"
    found = {c.label: c for c in completions(text + "bet")}
    assert next(iter(found)) == "beta"
    assert found["beta"].detail == "let beta: [F32; ?b, 2]"
    everything = {c.label for c in completions(text)}
    assert {"let", "out", "alpha", "beta", "relu", "f"} <= everything
    assert completions(text + "alpha.softma")[0].label == "softmax"
    assert [c.label for c in completions("let alpha = 1; alp + 1", 18)] == ["alpha"]
