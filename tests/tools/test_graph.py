"""`rlx graph`: files by their endings, what is printed, options, mistakes."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from rlxlang.tools.cli import main

MODEL = """
graph "line";
config width = 3;
input x: [?n, 2];
param w: [2, width] = ones();
param c: [] = zeros();
let h = tanh(x @ w);
repeat 4 {
  let h = step(h);
}
out loss = mean(h) * c;
fn step(h) {
  let a = sin(h);
  return a + h;
}
"""


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model in an empty folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "line.rlx").write_text(MODEL, "utf-8")
    return tmp_path / "line.rlx"


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("p.svg", "<svg "),
        ("p.html", "<!DOCTYPE html>"),
        ("p.dot", "digraph "),
        ("p.GV", "digraph "),
        ("p.mmd", "flowchart TD"),
        ("p.txt", "graph line"),
    ],
)
def test_the_ending_decides(model: Path, name: str, start: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", str(model), "-o", name]) == 0
    assert capsys.readouterr().out == f"saved to {name}\n"
    assert (model.parent / name).read_text("utf-8").startswith(start)


def test_without_a_file_a_tree_is_printed(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", str(model), "--set", "width=7"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("graph line\n├─ input x : f32 [n, 2]\n")
    assert "w [2, 7]" in out
    assert "├─ step × 4\n" in out


def test_a_format_may_be_printed(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", str(model), "--format", "svg", "--theme", "dark", "--right"]) == 0
    root = ET.fromstring(capsys.readouterr().out)
    assert float(root.get("width") or 0) > float(root.get("height") or 0)


def test_options(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", str(model), "--unfold"]) == 0
    assert capsys.readouterr().out.count(" step\n") == 4
    assert main(["graph", str(model), "--depth", "0"]) == 0
    assert "step × 4" in capsys.readouterr().out
    assert main(["graph", str(model), "--constants"]) == 0


@pytest.mark.parametrize(
    ("transform", "outputs"),
    [
        ("grad", ["d_w", "d_c"]),
        ("grad:w", ["d_w"]),
        ("value_and_grad:c", ["loss", "d_c"]),
        ("jvp:w", ["loss", "tangent_loss"]),
        ("remat", ["loss"]),
    ],
)
def test_transforms(model: Path, transform: str, outputs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", str(model), "--transform", transform]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[2] for line in lines if line[3:].startswith("out ")] == outputs


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-o", "p.png"], "the ending of `p.png` names no format"),
        (["-o", "no/p.svg"], "there is no folder `no`"),
        (["--transform", "gard"], "there is no transform `gard`"),
        (["--transform", "grad:q"], "no input or param `q`"),
        (["--depth", "-2"], "`depth` is a number of groups"),
        (["--set", "wide=3"], "unknown config `wide`"),
    ],
)
def test_mistakes(model: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", str(model), *words]) == 1
    captured = capsys.readouterr()
    assert message in captured.err
    assert not captured.out
    assert [p.name for p in model.parent.iterdir()] == ["line.rlx"]
