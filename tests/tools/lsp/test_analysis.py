"""What hover, hints, signatures, outline and quick fixes say of a model with every form of the language."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlxlang.diagnostics import Source, Span
from rlxlang.frontend import ast
from rlxlang.resources import stdlib_modules
from rlxlang.tools.lsp.actions import repairs
from rlxlang.tools.lsp.analysis import Analysis, Document, analyse
from rlxlang.tools.lsp.hints import hints
from rlxlang.tools.lsp.hover import hover
from rlxlang.tools.lsp.index import Definition
from rlxlang.tools.lsp.outline import Symbol, folds, symbols
from rlxlang.tools.lsp.signatures import signature
from rlxlang.tools.lsp.tokens import MODIFIERS, TYPES, tokens
from rlxlang.tools.lsp.unknown import unknown_names
from rlxlang.tools.lsp.workspace import Workspace

MODELS = Path(__file__).parent / "models"
SPAN = Span(source=Source("", ""), start=0, end=0)


@pytest.fixture(scope="module")
def workspace() -> Workspace:
    return Workspace([MODELS])


@pytest.fixture(scope="module")
def analysis(workspace: Workspace) -> Analysis:
    found = workspace.analysis(str(MODELS / "main.rlx"))
    assert found is not None
    assert found.diagnostics == ()
    return found


def offset_of(text: str, marked: str) -> int:
    return text.index(marked.replace("|", "")) + marked.index("|")


def of_text(text: str) -> tuple[Workspace, Analysis]:
    """A workspace with one text."""
    workspace = Workspace()
    workspace.open("text.rlx", text)
    found = workspace.analysis("text.rlx")
    assert found is not None
    return workspace, found


@pytest.mark.parametrize(
    ("marked", "expected"),
    [
        ("config |d =", "```rlx\nconfig d: int = 4\n```"),
        ("[?batch, |d]", "```rlx\nconfig d: int = 4\n```"),
        ("input |x:", "```rlx\ninput x: [F32; ?batch, 4]\n```"),
        ("[|?batch, d]", "```rlx\n?batch  // a dynamic axis\n```"),
        ("param |ws", '```rlx\nparam ws[depth]: 2 × [F32; 4, 4] = normal(0.02)\n```\n\nbound as "h.{i}.w"'),
        ("const |eps", "```rlx\nconst eps: [F32;]\n```"),
        ("fn |step", "```rlx\nfn step(h, w, n: int = 1)\n```\n\nA step of the recurrence."),
        ("= |step(h", "```rlx\nfn step(h, w, n: int = 1)\n```\n\nA step of the recurrence.\n\ngives `[F32; ?batch, 4]`"),
        ("relu(|h @", "```rlx\nh: [F32; ?batch, 4]\n```"),
        ("repeat |i", "```rlx\nrepeat i: int = 0, 1\n```"),
        ("first = |ws_0", "```rlx\nparam ws[depth]: 2 × [F32; 4, 4] = normal(0.02)\n```\n\nbound as \"h.{i}.w\""),
        (
            "= |fc(h, 8)",
            '```rlx\nblock dense(x, n: int, act: str = "none")\n```\n\nA dense layer.'
            '\n\ngives `[F32; ?batch, 8]`\n\nin `blocks.rlx`',
        ),
        ("blk::|pair", "```rlx\nblock pair(x, n: int)\n```\n\ngives `[F32; ?batch, 4]`\n\nin `blocks.rlx`"),
        ("= |blk::", '```rlx\nuse "blocks.rlx"\n```'),
        ("inner.|w;", "```rlx\nparam w: [F32; 8, 4] = he_normal()\n```\n\nin `blocks.rlx`"),
        ("scan |s =", "```rlx\ncarry s: [F32; ?batch, 4]\n```"),
        ("over |row", "```rlx\nscan row: [F32; 4]\n```"),
        ("as |level", "```rlx\nemit level: [F32; ?batch]\n```"),
        ("(mean(|level)", "```rlx\nemit level: [F32; ?batch]\n```"),
        ("let (low, |high)", "```rlx\nlet high: [F32; ?batch, 2]\n```"),
        (
            "= |softmax(tied",
            "```rlx\nsoftmax(x, axis: -1)\n```\n\nExponentials along an axis divided by their sum; a row that is all -inf gives zeros."
            "\n\ngives `[F32; ?batch, 4]`",
        ),
        ("tied, |axis:", "```rlx\naxis: -1\n```\n\noption of `softmax`: an axis, negative from the end"),
        ("[|I32;", "```rlx\nI32\n```\n\n32-bit integer"),
        ("wide: |bool", "```rlx\nbool\n```\n\na static `true` or `false`"),
        ("= |normal(", "```rlx\nnormal(mean, std)\n```\n\nAn initialiser: what `init_params` draws for a param."),
    ],
)  # fmt: skip
def test_hover(workspace: Workspace, analysis: Analysis, marked: str, expected: str) -> None:
    text = analysis.document.text
    found = hover(workspace, analysis, offset_of(text, marked))
    assert found is not None
    assert found.text == expected


def test_hover_of_nothing(workspace: Workspace, analysis: Analysis) -> None:
    for marked in ("|/// A model", "let h |= x", "0.0|2)"):
        assert hover(workspace, analysis, offset_of(analysis.document.text, marked)) is None


def test_types_of_every_definition_that_runs(analysis: Analysis) -> None:
    untyped = [d.name for d in analysis.document.index.definitions if not analysis.types(d)]
    assert sorted(untyped) == ["?batch", "blk", "fc", "h", "step", "swoosh", "twice"]  # h: the branch not taken


def test_hints(workspace: Workspace, analysis: Analysis) -> None:
    text = analysis.document.text
    start, stop = text.index("let h = x"), text.index("let tied")
    found = [(text[: h.offset].rpartition("\n")[2], h.text) for h in hints(workspace, analysis, start, stop)]
    assert found == [
        ("let h", ": [F32; ?batch, 4]"),
        ("  let h", ": [F32; ?batch, 4]"),
        ("  let h = step(h, ", "w: "),
        ("let first", ": [F32; 4, 4]"),
        ("  let h", ": [F32; ?batch, 4]"),
        ("let a", ": [F32; ?batch, 8]"),
        ("let a = fc(", "x: "),
        ("let a = fc(h, ", "n: "),
        ("let b", ": [F32; ?batch, 4]"),
        ("let b = blk::pair(", "x: "),
        ("let b = blk::pair(a, ", "n: "),
    ]


def test_types_of_a_fn_that_is_called_with_several_shapes() -> None:
    workspace, analysis = of_text(
        "input x: [2]; input y: [3]; fn f(v) { let r = v * 2; return r; } out a = f(x); out b = f(y);"
    )
    formal = next(analysis.document.index.of_kind("formal"))
    assert analysis.types(formal) == ["[F32; 2]", "[F32; 3]"]
    found = hover(workspace, analysis, analysis.document.text.index("v * 2"))
    assert found is not None
    assert found.text == "```rlx\nv: [F32; 2] | [F32; 3]\n```"
    assert (34, ": [F32; 2] | [F32; 3]") in [(h.offset, h.text) for h in hints(workspace, analysis, 0, 99)]


@pytest.mark.parametrize(
    ("text", "label", "active"),
    [
        ("let a = softmax(|", "softmax(x, axis: -1)", 0),
        ("let a = softmax(x, |", "softmax(x, axis: -1)", 1),
        ("let a = softmax(x, -1, |", "softmax(x, axis: -1)", None),
        ("let a = x.softmax(|", "softmax(x, axis: -1)", 1),
        ("let a = x.sum(keep_dim: |true)", "sum(x, axes: none, keep_dim: false)", 2),
        ("let a = x.sum([0, 1|])", "sum(x, axes: none, keep_dim: false)", 1),
        ("let a = relu(softmax(x) + |y)", "relu(x)", 0),
        ("fn f(a, b: int = 2) { return a; } let c = f(x, |", "fn f(a, b: int = 2)", 1),
        ("fn f(a, b: int = 2) { return a; } let c = x.f(|", "fn f(a, b: int = 2)", 1),
        ("fn f(a, b: int = 2) { return a; } let c = f(b: |", "fn f(a, b: int = 2)", 1),
        ("param w: [4] = normal(0, |", "normal(mean, std)", 1),
        ("let a = reshape(x, 1, 2, |", "reshape(x, dims)", 1),
        ("let a = dim(x, |", "dim(x, axis)", 1),
        ("let a = grad(y, |", "grad(y, a, …)", 1),
    ],
)
def test_signature(text: str, label: str, active: int | None) -> None:
    document = Document("text.rlx", text.replace("|", ""))
    found = signature(Workspace(), document, text.index("|"))
    assert found is not None
    assert (found.label, found.active) == (label, active)
    assert all(parameter in found.label for parameter, _ in found.parameters)


@pytest.mark.parametrize(
    "text", ["let a = (|", "let a = nothing(|", "fn f(|a) { return a; }", "// relu(|", "let a = relu(x)|;"]
)
def test_no_signature(text: str) -> None:
    assert signature(Workspace(), Document("text.rlx", text.replace("|", "")), text.index("|")) is None


def outline(found: list[Symbol]) -> list[object]:
    return [
        (s.label, s.kind, s.detail, outline(s.children)) if s.children else (s.label, s.kind, s.detail) for s in found
    ]


def test_symbols() -> None:
    text = 'graph "g"; config n = 2; input x: [n]; block b(v) { param w: [2]; let y = v * w; return y; } let (p, q) = f(x); out r = p;'
    _, analysis = of_text(text)
    assert outline(symbols(analysis.document)) == [
        ('"g"', "graph", "graph"),
        ("n", "config", ""),
        ("x", "input", "[n]"),
        ("b", "block", "(v)", [("w", "param", "[2]"), ("y", "let", "")]),
        ("p", "let", ""),
        ("q", "let", ""),
        ("r", "out", ""),
    ]


def test_symbols_have_types(analysis: Analysis) -> None:
    by_name = {s.label: s.detail for s in symbols(analysis.document, analysis)}
    assert by_name["ws"] == "2 × [F32; 4, 4]"
    assert by_name["tied"] == "[F32; ?batch, 4]"
    for symbol in symbols(analysis.document, analysis):
        assert symbol.whole.start <= symbol.name.start <= symbol.name.end <= symbol.whole.end


def test_folds() -> None:
    text = (
        "// one\n// two\n\nfn f(\n  x,\n) {\n  let y = [\n    1,\n  ];\n  return y;\n}\n/* a\nb */\nlet a = 1; // c\n"
    )
    assert [(f.start, f.stop, f.kind) for f in folds(Document("text.rlx", text))] == [
        (0, 1, "comment"),
        (5, 9, ""),
        (6, 7, ""),
        (11, 12, "comment"),
    ]


def test_tokens() -> None:
    text = "use nn; config n = 2; param w: [F16; ?b, n] = zeros(); fn f(x) { return relu(x); } let y = w.f().sum(axes: 0) * pi + nn::g(w);"
    workspace = Workspace()
    document = Document("text.rlx", text)
    found = [
        (text[t.start : t.end], TYPES[t.type], [m for k, m in enumerate(MODIFIERS) if t.modifiers >> k & 1])
        for t in tokens(workspace, document)
    ]
    assert found == [
        ("nn", "namespace", []),
        ("n", "variable", ["declaration", "readonly"]),
        ("w", "variable", ["declaration"]),
        ("F16", "type", ["defaultLibrary"]),
        ("?b", "typeParameter", ["declaration"]),
        ("n", "variable", ["readonly"]),
        ("zeros", "function", ["defaultLibrary"]),
        ("f", "function", ["declaration"]),
        ("x", "parameter", ["declaration"]),
        ("relu", "function", ["defaultLibrary"]),
        ("x", "parameter", []),
        ("y", "variable", ["declaration"]),
        ("w", "variable", []),
        ("f", "function", []),
        ("sum", "method", ["defaultLibrary"]),
        ("axes", "parameter", []),
        ("pi", "enumMember", ["readonly", "defaultLibrary"]),
        ("nn", "namespace", []),
        ("w", "variable", []),
    ]


@pytest.mark.parametrize(
    ("text", "repaired"),
    [
        ("let a = reluu(x);", ["let a = relu(x);", "let a = relu6(x);"]),
        ("let a = y;", []),
        ("let alpha = 1; out b = alpa;", ["let alpha = 1; out b = alpha;"]),
        ("let a = x.sum(axs: 0);", ["let a = x.sum(axes: 0);"]),
        ("let a = x\nlet b = a;", ["let a = x;\nlet b = a;"]),
        ("let a = x; let b = x; out b;", ["let _a = x; let b = x; out b;"]),
        ("b = x;", ["let b = x;"]),
        ("let a = x > 0 && x < 1;", ["let a = x > 0 & x < 1;"]),
        ("let a = x > 0 or x < 1;", ["let a = x > 0 | x < 1;"]),
        ("let a = x.sum(axes=0);", ["let a = x.sum(axes: 0);"]),
        ("let a = x[0:1];", ["let a = x[0..1];"]),
        ("let a = x − 1;", ["let a = x - 1;"]),
        ("let a = +x;", ["let a = x;"]),
        ('let a = nn::dense(x, 3);', ['graph "g";\nuse nn; input x: [4]; let a = nn::dense(x, 3);']),
    ],
)  # fmt: skip
def test_repairs(text: str, repaired: list[str]) -> None:
    whole = f'graph "g"; input x: [4]; {text}'
    _, analysis = of_text(whole)
    found: list[str] = []
    for diagnostic in analysis.diagnostics:
        for repair in repairs(analysis.document, diagnostic):
            after = whole
            for edit in sorted(repair.edits, key=lambda e: -e.span.start):
                after = after[: edit.span.start] + edit.text + after[edit.span.end :]
            found.append(after.removeprefix('graph "g"; input x: [4]; '))
    for expected in repaired:
        assert expected in [f.replace("axes:0", "axes: 0") for f in found]
    assert bool(found) == bool(repaired)


def test_a_library_needs_no_output(workspace: Workspace) -> None:
    found = workspace.analysis(str(MODELS / "blocks.rlx"))
    assert found is not None
    assert found.diagnostics == ()


def test_an_elaboration_without_end_is_stopped() -> None:
    document = Document("text.rlx", "input x: [2]; let h = x; repeat 300 { repeat 300 { let h = h + 1; } } out h;")
    found = analyse(document, Path.read_text, seconds=0.05)
    assert not found.complete
    assert [d.code for d in found.diagnostics] == ["W0900"]
    assert isinstance(next(iter(document.index.definitions)), Definition)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("fn f(x) { let y = zz; return y; }", [("E0201", "zz")]),
        ("fn f(x) { let yy = x; return yx; }", [("E0201", "yx")]),
        ("fn f(x) { return reluu(x); }", [("E0202", "reluu")]),
        ("fn f(x) { return x.reluu(); }", [("E0202", "reluu")]),
        ("block f(x) { param w: [nn2]; return x * w; }", [("E0201", "nn2")]),
        ("fn f(x) { return later(x) + n; } fn later(x) { return x * pi; } config n = 1;", []),
        ("fn f(x) { return zz; } input x: [2]; out y = f(x);", []),  # elaboration reports it
        ("fn f(x) { return zz; } let a = ;", []),  # what could not be read may have bound it
        ('use "nowhere.rlx"::*; fn f(x) { return zz; }', []),
        ("use nn::*; fn f(x) { return activate(x, zz); }", [("E0201", "zz")]),
        ("use init::{zeros}; block f(x) { param w: [2] = zeros(); return x * w * F16; }", []),
        ("fn f(x) { scan h = x for 3 { let h = h + k; emit h as k; } return k; }", [("E0201", "k")]),
    ],
)
def test_unknown_names_where_nothing_calls(text: str, expected: list[tuple[str, str]]) -> None:
    workspace, analysis = of_text(text)
    found = unknown_names(workspace, analysis)
    assert [(d.code, d.span.text) for d in found if d.span] == expected
    if "reluu" in text:
        assert "did you mean `relu`" in found[0].help


def test_the_standard_library_knows_its_names() -> None:
    workspace = Workspace()
    for name in stdlib_modules():
        path = workspace.target(ast.Ref(SPAN, (ast.Name(SPAN, name),)), "")
        assert path is not None
        found = workspace.analysis(path)
        assert found is not None
        assert [*found.diagnostics, *unknown_names(workspace, found)] == [], name


def test_a_fault_of_the_checker_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*args: object, **named: object) -> None:
        raise KeyError("missing")

    monkeypatch.setattr("rlxlang.tools.lsp.analysis.elaborate_parsed", fails)
    _, analysis = of_text("input x: [2]; out x")
    assert [(d.code, d.message) for d in analysis.diagnostics] == [
        ("E0103", "`;` is missing here"),
        ("E0001", "internal error: KeyError: 'missing'"),
    ]
    assert not analysis.complete
