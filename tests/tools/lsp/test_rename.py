"""Renaming and references: every place, across files, or the reason why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlxlang.tools.lsp.rename import Refused, renamable, rename
from rlxlang.tools.lsp.workspace import Workspace

BLOCKS = """\
config scale = 2.0;
fn twice(v) { return v + v * scale; }
block dense(x, n: int) { param w: [dim(x, -1), n]; return x @ w; }
"""
MAIN = """\
use "blocks.rlx" as blk;
use "blocks.rlx"::{twice, dense as fc};
input x: [?b, 4];
let h = fc(x, n: 8) as first;
let y = twice(blk::twice(v: h)) + first.w * blk::scale;
out y;
"""
THIRD = 'use "blocks.rlx"::*;\ninput x: [2, 2];\nout z = twice(x) * scale;\n'


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    for name, text in (("blocks.rlx", BLOCKS), ("main.rlx", MAIN), ("third.rlx", THIRD)):
        (tmp_path / name).write_text(text)
    return Workspace([tmp_path])


def renamed(workspace: Workspace, name: str, marked: str, new: str) -> dict[str, str]:
    """The texts of the files that change when what stands at `|` is renamed."""
    folder = workspace.folders[0]
    document = workspace.document(str(folder / name))
    assert document is not None
    offset = document.text.index(marked.replace("|", "")) + marked.index("|")
    changed: dict[str, str] = {}
    for edit in reversed(rename(workspace, document, offset, new)):
        file = Path(edit.span.source.name)
        text = changed.get(file.name, edit.span.source.text)
        changed[file.name] = text[: edit.span.start] + edit.text + text[edit.span.end :]
    return changed


def in_text(text: str, new: str) -> str:
    """A text after the renaming of what stands at `|`."""
    workspace = Workspace()
    workspace.open("text.rlx", text.replace("|", "", 1))
    document = workspace.document("text.rlx")
    assert document is not None
    after = document.text
    for edit in reversed(rename(workspace, document, text.index("|"), new)):
        after = after[: edit.span.start] + edit.text + after[edit.span.end :]
    return after


@pytest.mark.parametrize(
    ("name", "marked"),
    [("blocks.rlx", "fn |twice"), ("main.rlx", "blk::|twice"), ("main.rlx", "{|twice,"), ("third.rlx", "|twice(x)")],
)
def test_a_function_everywhere(workspace: Workspace, name: str, marked: str) -> None:
    changed = renamed(workspace, name, marked, "double")
    assert changed == {
        "blocks.rlx": BLOCKS.replace("twice", "double"),
        "main.rlx": MAIN.replace("twice", "double"),
        "third.rlx": THIRD.replace("twice", "double"),
    }


def test_an_alias_keeps_its_name(workspace: Workspace) -> None:
    changed = renamed(workspace, "blocks.rlx", "block |dense", "linear_layer")
    assert changed == {
        "blocks.rlx": BLOCKS.replace("dense", "linear_layer"),
        "main.rlx": MAIN.replace("dense as fc", "linear_layer as fc"),
    }
    changed = renamed(workspace, "main.rlx", "= |fc(x", "layer")
    assert changed == {"main.rlx": MAIN.replace("fc", "layer")}
    changed = renamed(workspace, "main.rlx", "as |blk", "b")
    assert changed == {"main.rlx": MAIN.replace("blk", "b")}


def test_parameters_fields_and_values_of_other_files(workspace: Workspace) -> None:
    assert renamed(workspace, "main.rlx", "(|v: h)", "value") == {
        "blocks.rlx": BLOCKS.replace("twice(v) { return v + v *", "twice(value) { return value + value *"),
        "main.rlx": MAIN.replace("v: h", "value: h"),
    }
    assert renamed(workspace, "main.rlx", "first.|w", "weight") == {
        "blocks.rlx": BLOCKS.replace("w: [dim", "weight: [dim").replace("@ w", "@ weight"),
        "main.rlx": MAIN.replace("first.w", "first.weight"),
    }
    assert renamed(workspace, "blocks.rlx", "config |scale", "factor") == {
        "blocks.rlx": BLOCKS.replace("scale", "factor"),
        "main.rlx": MAIN.replace("blk::scale", "blk::factor"),
        "third.rlx": THIRD.replace("scale", "factor"),
    }


def test_a_name_that_another_file_has_is_refused(workspace: Workspace) -> None:
    third = workspace.folders[0] / "third.rlx"
    workspace.open(str(third), THIRD + "fn double(x) { return x; }\n")
    with pytest.raises(Refused, match="`double` has another meaning at line 3"):
        renamed(workspace, "blocks.rlx", "fn |twice", "double")
    with pytest.raises(Refused, match="`relu` has another meaning at line 3"):
        renamed(workspace, "blocks.rlx", "fn |twice", "relu")


def test_unsaved_texts_are_what_counts(workspace: Workspace) -> None:
    folder = workspace.folders[0]
    workspace.open(str(folder / "third.rlx"), "let nothing = 1;")
    workspace.open(str(folder / "blocks.rlx"), "\n" + BLOCKS)
    changed = renamed(workspace, "blocks.rlx", "fn |twice", "double")
    assert sorted(changed) == ["blocks.rlx", "main.rlx"]
    assert changed["blocks.rlx"].startswith("\nconfig")
    workspace.close(str(folder / "third.rlx"))
    assert "third.rlx" in renamed(workspace, "blocks.rlx", "fn |twice", "double")


@pytest.mark.parametrize(
    ("text", "new", "expected"),
    [
        ("let |h = 1; let g = h; let h = 2; out h;", "a", "let a = 1; let g = a; let h = 2; out h;"),
        ("let h = 1; repeat 2 { let |h = h + 1; } out h;", "a", "let a = 1; repeat 2 { let a = a + 1; } out a;"),
        ("scan h = 0 for 2 { let h = 1; } out |h;", "a", "scan a = 0 for 2 { let a = 1; } out a;"),
        ("fn f(x) { return x; } let x = 1; let y = f(|x: x);", "v", "fn f(v) { return v; } let x = 1; let y = f(v: x);"),
        ("let |max = 1; let y = max(max);", "top", "let top = 1; let y = max(top);"),
        ("input x: [|?b]; input y: [?b, ?c];", "n", "input x: [?n]; input y: [?n, ?c];"),
        ("input x: [|?b]; input y: [?b, ?c];", "?n", "input x: [?n]; input y: [?n, ?c];"),
        ("param |w[2]: [4]; let a = w_1 + w[0];", "v", "param v[2]: [4]; let a = v_1 + v[0];"),
        ('config |k = 1; param w @ "p.{k}": [4];', "j", 'config j = 1; param w @ "p.{j}": [4];'),
        ("fn f(x) { let y = x; } vjp f(|x, g) { let dx = g * x; }", "v", "fn f(x) { let y = x; } vjp f(v, g) { let dv = g * v; }"),
        ("fn f(x) { let y = x; } vjp |f(x, g) { return g; }", "h", "fn h(x) { let y = x; } vjp h(x, g) { return g; }"),
        ("let (|a, b) = split(x, 0, 2); out c = a + b;", "p", "let (p, b) = split(x, 0, 2); out c = p + b;"),
        ("let |a = 1;", "a", "let a = 1;"),
        ("let a = 1; fn f(|x) { return x; } out b = a;", "a", "let a = 1; fn f(a) { return a; } out b = a;"),
        ("let a = 1; let |b = a; out c = b;", "a", "let a = 1; let a = a; out c = a;"),
        ("fn |f(x) { return x; } let y = f(1);", "relu", "fn relu(x) { return x; } let y = relu(1);"),
        ("let 🙂 = 1; let |a = 1; out a;", "bb", "let 🙂 = 1; let bb = 1; out bb;"),
    ],
)  # fmt: skip
def test_in_one_text(text: str, new: str, expected: str) -> None:
    assert in_text(text, new) == expected


@pytest.mark.parametrize(
    ("text", "new", "reason"),
    [
        ("let y = |relu(x);", "f", "`relu` belongs to the language"),
        ("let y = sum(x, |axes: 0);", "f", "`axes` belongs to the language"),
        ("input x: [|F16; 2];", "f", "`F16` belongs to the language"),
        ("let y = |pi;", "f", "`pi` belongs to the language"),
        ("param w: [2] = |zeros();", "f", "`zeros` belongs to the language"),
        ("config a: |int;", "f", "`int` belongs to the language"),
        ("let |a = 1;", "2a", "`2a` is not a name"),
        ("let |a = 1;", "a b", "`a b` is not a name"),
        ("let |a = 1;", "", "`` is not a name"),
        ("let |a = 1;", "_", "`_` is not a name"),
        ("let |a = 1;", "true", "`true` is a word of the language"),
        ("let |a = 1;", "none", "`none` is a word of the language"),
        ("let |a = 1;", "F32", "`F32` is a word of the language"),
        ("let |a = 1;\nlet b = 2;\nout c = a + b;", "b", "`b` has another meaning at line 3"),
        ("let a = 1;\nfn f(|x) {\n  return x + a;\n}", "a", "`a` has another meaning at line 3"),
        ("let |a = 1;\nfn f(x) {\n  return x + a;\n}", "x", "`x` has another meaning at line 3"),
        ("let |a = 1; repeat 2 {\n  let c = a;\n  let b = c;\n}", "b", "`b` has another meaning at line 2"),
        ("fn |f(x) { return x; }\nfn g(x) { return x; }", "g", "`g` has another meaning at line 2"),
        ("fn |f(x) { return x; }\nlet y = relu(1);", "relu", "`relu` has another meaning at line 2"),
        ("input |x: [2];\ninput y: [2];", "y", "`y` has another meaning at line 2"),
        ("use nn as |a;\nuse nn as b;", "b", "`b` has another meaning at line 2"),
        ("let y = f(x);\nfn f(|x, y) { return x; }", "y", "`y` cannot be the name here: parameter `y` appears twice"),
        ("input x: [|?b, ?c];", "c", "`?c` has another meaning at line 1"),
        ("|let a = 1;", "b", "there is no name here"),
        ("let a = |unknown;", "b", "it is not known what `unknown` means"),
        ("use |nn;", "b", "a module is named by its file; give it a name with `as`"),
        ("use nn; let y = nn::|activate(x, 1);", "b", "`activate` belongs to the standard library"),
    ],
)
def test_refusals(text: str, new: str, reason: str) -> None:
    with pytest.raises(Refused) as caught:
        in_text(text, new)
    assert str(caught.value) == reason


def test_what_can_be_renamed() -> None:
    workspace = Workspace()
    workspace.open("text.rlx", "let alpha = 1; out alpha;")
    document = workspace.document("text.rlx")
    assert document is not None
    span, name = renamable(workspace, document, 9)  # at the end of the name
    assert (span.start, span.end, name) == (4, 9, "alpha")
