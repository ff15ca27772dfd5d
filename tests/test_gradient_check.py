"""Derivatives measured by differences."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import rlxlang as rlx
from rlxlang.tools.cli import main
from rlxlang.transforms import widened

MLP = """\
input x: [?b, 3];
param w: [3, 4] = he_normal();
let h = gelu(x @ w);
out loss = mean(softmax(h) ** 2.0);
out y = sum(tanh(h), 0);
"""
WRONG = """\
fn f(x) { return x ** 3; }
vjp f(x, ct) { let dx = ct * 2.0 * x ** 2; }
input x: [3];
out y = sum(f(x));
"""


def test_a_model_is_right_to_second_order() -> None:
    func = rlx.loads(MLP).init_params(seed=0)
    report = rlx.check_grads(func, x=np.random.default_rng(0).normal(size=(2, 3)))
    assert report.ok
    assert {(f.name, f.mode) for f in report.findings} == {
        (name, mode)
        for name in ("x", "w")
        for mode in ("fwd", "rev", "fwd fwd", "fwd rev", "rev fwd", "rev rev")
    }  # fmt: skip
    assert all(f.compared >= 8 for f in report.findings)
    assert "rev fwd" in str(report)


def test_a_wrong_rule_is_found_and_placed() -> None:
    func = rlx.loads(WRONG)
    with pytest.raises(rlx.RlxTransformError) as caught:
        rlx.check_grads(func, x=[0.5, 1, -2], modes=("rev",), order=1)
    text = str(caught.value)
    assert caught.value.diagnostics[0].code == "E0504"
    assert "derivatives of `graph` in `x` are wrong" in text
    assert "d_x [2] by `rev` is 8; differences of the values give 12" in text


def test_a_rule_that_is_wrong_in_second_order_only() -> None:
    text = """\
fn f(x) { return x ** 3; }
vjp f(x, ct) { let dx = ct * 3.0 * x * stop_gradient(x); }
input x: [2];
out y = sum(f(x));
"""
    func = rlx.loads(text)
    assert rlx.check_grads(func, x=[0.5, 2], modes=("rev",), order=1).ok
    with pytest.raises(rlx.RlxTransformError, match="rev rev"):
        rlx.check_grads(func, x=[0.5, 2], modes=("rev",), order=2)


def test_corners_are_passed_over_and_counted() -> None:
    report = rlx.check_grads(rlx.loads("input x: [3]; out y = relu(x);"), x=[0, 1, -1], order=1)
    assert sum(f.kinks for f in report.findings) > 0
    wrong = "fn f(x) { return relu(x); }\nvjp f(x, ct) { let dx = ct * 2.0; }\ninput x: [2];\nout y = f(x);"
    with pytest.raises(rlx.RlxTransformError, match="E0504"):
        rlx.check_grads(rlx.loads(wrong), x=[0, 0], order=1, modes=("rev",))


def test_loops_random_numbers_integers_and_empty_axes() -> None:
    func = rlx.loads(
        """\
input x: [?n, 2];
input i: [I32; ?k];
param w: [2, 2] = normal(0.5);
scan h = zeros([2]) over row in x {
  let h = tanh(h @ w + row);
}
let noisy = dropout(h, 0.5);
out loss = sum(noisy) + sum(gather(x, i, axis: 0) ** 2.0);
"""
    ).init_params(seed=1)
    x = np.random.default_rng(0).normal(size=(4, 2))
    assert rlx.check_grads(func, x=x, i=[0, 2, 2]).ok
    assert rlx.check_grads(func, x=np.zeros((0, 2)), i=np.zeros(0, np.int32), wrt=["x"], order=1).ok


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"order": 0}, "`order` is 1 or more"),
        ({"modes": ("forward",)}, "unknown mode 'forward'"),
        ({"wrt": ["z"]}, "`z`"),
    ],
)
def test_refusals(options: dict[str, object], words: str) -> None:
    func = rlx.loads("input x: [3]; out y = x * 2.0;")
    with pytest.raises(rlx.RlxError, match=words):
        rlx.check_grads(func, {"x": [1, 2, 3]}, **options)  # type: ignore[arg-type]
    with pytest.raises(rlx.RlxValueError, match="no float inputs"):
        rlx.check_grads(rlx.loads("input x: [I32; 3]; out y = x * 2;"), x=[1, 2, 3])


def test_a_widened_graph_computes_the_same_in_f64() -> None:
    func = rlx.loads("input x: [F16; 3]; scan h = x for 3 { let h = h * 0.125 + cast(x, F16); } out y = cast(h, F32);")
    wide = rlx.Func.from_graph(widened(func.graph))
    assert {str(n.dtype) for n in wide.graph.nodes if n.op.name != "scan" and n.dtype.is_float} == {"F64"}
    x = np.array([1.0, 2, 3])
    np.testing.assert_allclose(wide.run(x=x)[0], x * (1 + 0.125 + 0.125**2 + 0.125**3), rtol=1e-14)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mlp.rlx"
    path.write_text(MLP)
    assert main(["gradcheck", str(path), "--size", "b=2", "--order", "1", "--seed", "3"]) == 0
    assert "rev" in capsys.readouterr().out
    path.write_text(WRONG)
    assert main(["gradcheck", str(path), "--modes", "rev", "--order", "1", "--input", "x=[1,2,3]"]) == 1
    assert "E0504" in capsys.readouterr().err


def test_what_stops_derivatives_is_named() -> None:
    func = rlx.loads("input x: [2]; let fixed = stop_gradient(x); out y = sum(x * fixed);")
    with pytest.raises(rlx.RlxTransformError, match=r"`stop_gradient` at <text>:1:27"):
        rlx.check_grads(func, x=[1, 2])
    with pytest.raises(rlx.RlxTransformError, match="rules of their own in `f` at"):
        rlx.check_grads(rlx.loads(WRONG.replace("cube", "f")), x=[1, 2, 3], modes=["rev"])
