"""The watch for NaN and infinities."""

from __future__ import annotations

import numpy as np
import pytest

import rlxlang as rlx

TEXT = "input x: [3];\nlet a = log(x);\nlet b = a * 2.0;\nout loss = sum(b);"


def test_the_first_op_is_named_with_its_line() -> None:
    func = rlx.loads(TEXT)
    x = np.float32([1, -2, 3])
    assert np.isnan(func(x=x))
    with rlx.debug_nans():
        assert func(x=[1, 2, 3]) == pytest.approx(2 * np.log([1, 2, 3]).sum())
        for run in (lambda: func.run(x=x), lambda: func.run_on("cpu", x=x), lambda: func.jit()(x), lambda: func(x=x)):
            with pytest.raises(rlx.RlxRuntimeError) as caught:
                run()
            for word in ("`log` makes nan at [1]", "<text>:2:9", "1 of 3"):
                assert word in str(caught.value)
        with pytest.raises(rlx.RlxRuntimeError, match="input `x` holds inf"):
            func.run(x=[1, np.inf, 2])
    assert np.isnan(func(x=x))


def test_a_gradient_says_so() -> None:
    func = rlx.loads("input x: [2]; out loss = sum(sqrt(x));").grad(["x"])
    with rlx.debug_nans(), pytest.raises(rlx.RlxRuntimeError, match="comes from grad"):
        func.run(x=[0, 1])


def test_switch() -> None:
    func = rlx.loads(TEXT)
    rlx.debug_nans()
    try:
        with pytest.raises(rlx.RlxRuntimeError):
            func.run(x=[-1, 1, 1])
        with rlx.debug_nans(False):
            func.run(x=[-1, 1, 1])
        with pytest.raises(rlx.RlxRuntimeError):
            func.run(x=[-1, 1, 1])
    finally:
        rlx.debug_nans(False)
    func.run(x=[-1, 1, 1])


def test_the_values_that_led_there() -> None:
    func = rlx.loads("input x: [2];\nlet a = x * 50.0;\nlet b = a + 1.0;\nout y = exp(b);")
    with rlx.debug_nans(), pytest.raises(rlx.RlxRuntimeError) as caught:
        func.run(x=[1, 2])
    for words in ("`exp` makes inf at [1]", "`add`: 51 to 101", "`mul`: 50 to 100", "`x`: 1 to 2"):
        assert words in str(caught.value)


def test_ops_inside_of_loops_are_named() -> None:
    func = rlx.loads("input x: [2];\nscan h = x for 9 {\n  let h = h * h * 10.0;\n}\nout y = sum(h);")
    with rlx.debug_nans(), pytest.raises(rlx.RlxRuntimeError, match=r"`mul` makes inf[^~]*<text>:3:11"):
        func.run(x=[1, 2])
    loop = rlx.loads("input x: [];\nloop h = x while h > -1.0 max 40 {\n  let h = log(h);\n}\nout y = h;")
    with rlx.debug_nans(), pytest.raises(rlx.RlxRuntimeError, match=r"`log` makes (nan|-inf)[^~]*<text>:3:11"):
        loop.run(x=1.0)


def test_a_training_step_is_watched() -> None:
    func = rlx.loads("input x: [2]; param w: [2] = ones(); out loss = sum(log(w * x));").init_params(seed=0)
    trainer = func.trainer(rlx.optim.Sgd(0.1))
    trainer.step(x=[1, 2])
    with rlx.debug_nans(), pytest.raises(rlx.RlxRuntimeError, match="`log` makes nan"):
        trainer.step(x=[-1, 2])


@pytest.mark.parametrize(
    ("text", "inputs", "words"),
    [
        ("input x: [4]; input i: [I32; 2]; out y = gather(x, i);", {"x": np.ones(4), "i": [0, 4]}, "position 4 at"),
        ("input x: [4]; input i: [I32; 2]; out y = x[i];", {"x": np.ones(4), "i": [-5, 0]}, "position -5 at [0]"),
        ("input t: [3, 2]; input i: [I32; ?b]; out y = embed(t, i);", {"t": np.ones((3, 2)), "i": [0, 1, 3]}, "3 entries"),
        (
            "input x: [2, 3]; input l: [I32; 2]; out y = softmax_cross_entropy(x, l);",
            {"x": np.ones((2, 3)), "l": [0, 3]},
            "`softmax_cross_entropy` is given the position 3",
        ),
        (
            "input x: [2, 3]; input p: [I32; 1, 2]; out y = gather_nd(x, p);",
            {"x": np.ones((2, 3)), "p": [[2, 0]]},
            "position 2 at",
        ),
        (
            "input x: [3]; input i: [I32; 2]; input u: [2]; out y = scatter(x, i, u, mode: \"add\");",
            {"x": np.ones(3), "i": [0, 9], "u": [1, 1]},
            "1 of 2 positions",
        ),
    ],
)  # fmt: skip
def test_positions_outside_of_their_axis(text: str, inputs: dict[str, object], words: str) -> None:
    func = rlx.loads(text)
    func.run(inputs)  # clamped
    with rlx.debug_checks(), pytest.raises(rlx.RlxRuntimeError) as caught:
        func.run(inputs)
    assert words in str(caught.value)
    assert caught.value.diagnostics[0].code == "E0815"


def test_labels_that_are_skipped_may_lie_outside() -> None:
    func = rlx.loads("input x: [2, 3]; input l: [I32; 2]; out y = softmax_cross_entropy(x, l, ignore_index: -100);")
    with rlx.debug_checks():
        assert func(x=np.ones((2, 3)), l=[0, -100])[1] == 0


def test_a_log_of_values(capsys: pytest.CaptureFixture[str]) -> None:
    func = rlx.loads(TEXT)
    with rlx.trace(file=None) as records:
        func.run(x=[1, -2, 3])
    assert [r.op for r in records if r.op not in ("constant", "broadcast_to")] == ["x", "log", "mul", "sum"]
    log = next(r for r in records if r.op == "log")
    assert (log.type, log.low, log.nans, log.place) == ("F32 [3]", 0.0, 1, "<text>:2:9")
    assert log.high == pytest.approx(np.log(3))
    assert capsys.readouterr().err == ""
    with rlx.trace():
        func.value_and_grad(["x"]).run(x=[1, -2, 3])
    lines = capsys.readouterr().err.splitlines()
    assert any(line.startswith("log ") and "1 NaN" in line for line in lines)
    assert any("(grad)" in line for line in lines)


def test_several_switches_at_once() -> None:
    func = rlx.loads("input x: [3]; input i: [I32; 1]; out y = log(gather(x, i));")
    with rlx.debug_nans(), rlx.debug_checks(), rlx.trace(file=None) as records:
        func.run(x=[1, 2, 3], i=[2])
        assert records
        with pytest.raises(rlx.RlxRuntimeError, match="E0815"):
            func.run(x=[1, 2, 3], i=[5])
        with pytest.raises(rlx.RlxRuntimeError, match="E0813"):
            func.run(x=[1, 2, -3], i=[2])
    func.run(x=[1, 2, -3], i=[5])
