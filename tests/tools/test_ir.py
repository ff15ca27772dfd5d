"""`rlx ir`: every stage of a model."""

from __future__ import annotations

from pathlib import Path

import pytest

import rlxlang as rlx
from rlxlang.ir.parser import parse_graph
from rlxlang.ir.printer import print_graph
from rlxlang.kernels.text import program_text
from rlxlang.lower import lower
from rlxlang.tools.cli import main
from rlxlang.tools.ir import STAGES

TEXT = """\
graph "m";
input x: [?b, 3];
param w: [3, 2] = he_normal();
out loss = mean(relu(x @ w));
"""
WORDS = {
    "ast": ["Module", "statements: Input @2:1", "name: Name @2:7 text='x'"],
    "graph": ['graph "m" {', "= relu(", ": [F32; ?b, 2] = ", "= mean("],
    "simplified": ["sum(", "dim_size"],
    "kernels": ["contract ", "`w`", "maximum(product, 0)", "sums of 3 products"],
    "llvm": ["define", "fadd"],
    "asm": [".globl", "ret"],
    "opencl": ["kernel ", "global "],
}


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "m.rlx"
    path.write_text(TEXT)
    return str(path)


@pytest.mark.parametrize("stage", STAGES)
def test_stages(stage: str, model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ir", model, "--stage", stage]) == 0
    shown = capsys.readouterr().out
    for word in WORDS[stage]:
        assert word in shown


def test_the_graph_of_a_derivative_reads_back(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ir", model, "--grad", "all", "--stage", "simplified", "--exact"]) == 0
    text = capsys.readouterr().out
    assert 'out "d_w"' in text
    assert print_graph(parse_graph(text)) == text


def test_refusals(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ir", model, "--grad", "v"]) == 1
    assert "`v`" in capsys.readouterr().err
    assert main(["ir", model, "--grad", "w", "--stage", "ast"]) == 1
    assert main(["ir", model + "x", "--stage", "ast"]) == 1
    Path(model).write_text("input x: [3]\nout y = x;")
    assert main(["ir", model, "--stage", "ast"]) == 1
    assert "E0103" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("input x: [4, 3]; out y = sum(exp(x) / (1.0 + exp(x)), 1);", ["for all i0 < 4", "over i1 < 3", "t0 = exp(", "r0 = sum"]),
        ("input x: [5, 2]; scan h = zeros([2]) over r in x { let h = tanh(h + r); } out y = h;", ["loop ", "window b", " 5 times"]),
        ("input x: []; loop v = x while v < 9.0 { let v = v * 2.0; } out y = v;", ["while ", "  condition", "  body"]),
        ("input x: [2]; input i: [I32; 2]; out y = x[i];", ["(in 2: I64(b1[i0]))"]),
        ("input x: [3, 3]; out y = inv(x);", ["call ", "inv("]),
        ("input x: [3, 4]; out y = sort(x, -1);", ["sort ", "first 4 of 4 in each of 3 rows"]),
        ("input x: [6]; out y = cumsum(x, 0);", ["prefix sum", "running "]),
        ("input a: [7, 2, 3]; input b: [7, 3, 4]; out y = a @ b;", ["[7] times", "12*i0"]),
    ],
)  # fmt: skip
def test_kernels_as_text(text: str, words: list[str]) -> None:
    shown = program_text(lower(rlx.loads(text).graph).program)
    for word in words:
        assert word in shown
