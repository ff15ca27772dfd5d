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
