"""`bind`: values given from Python."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import rlxlang as rlx

ONE = np.ones(3, np.float32)


def run(text: str, bind: dict[str, Any], **inputs: Any) -> Any:
    return rlx.loads(text, bind=bind)(**(inputs or {"x": ONE}))


def errors(text: str, bind: dict[str, Any]) -> list[tuple[str, str]]:
    return [(d.code, d.span.text if d.span else "") for d in rlx.check(text, bind=bind) if d.is_error]


@pytest.mark.parametrize(
    ("text", "bind", "expected"),
    [
        ("bind t; let y = x * t;", {"t": ONE * 2}, 2),
        ("bind t; let y = x * t;", {"t": 3}, 3),
        ("bind t; let y = x * t;", {"t": np.float32(3)}, 3),
        ("bind n; repeat n { let x = x + x; } let y = x;", {"n": 3}, 8),
        ("bind on; if on { let y = x; } else { let y = x * 5; }", {"on": False}, 5),
        ('bind act; if act == "neg" { let y = -x; } else { let y = x; }', {"act": "neg"}, -1),
        ("bind a, b; let y = x * a + b;", {"a": ONE * 2, "b": [7][0]}, 9),
        ("bind c; let y = x * c.k + c.inner.v;", {"c": {"k": 4, "inner": {"v": ONE}}}, 5),
        ("bind c; let y = x * c.k;", {"c": SimpleNamespace(k=ONE * 6)}, 6),
        ("bind ls[]; let y = x * ls[0] + ls[1];", {"ls": [ONE * 2, ONE]}, 3),
        ("bind ls[]; let y = x * ls[1].w;", {"ls": [{"w": 1}, {"w": ONE * 9}]}, 9),
        ("bind ls[]; let y = x * ls[1].cb[0];", {"ls": [SimpleNamespace(cb=[ONE]), SimpleNamespace(cb=(ONE * 8,))]}, 8),
        ("bind ls[]; let k = 1; let y = x * ls[k - 1][k];", {"ls": [[ONE, ONE * 5]]}, 5),
        ("bind ls[]; let y = x + sum(stack(ls), 0);", {"ls": [ONE, ONE, ONE]}, 4),
        ("bind ls[]; let y = x;", {"ls": []}, 1),
        ("bind t; fn f(v) { return v * t; } let y = f(x);", {"t": ONE * 2}, 2),
        ("bind t; block f(v) { param w: [dim(t, 0)] = ones(); return v * t * w; } let y = f(x);", {"t": ONE * 2}, 2),
        ("bind t; let y = x * t;", {"t": rlx.Param(ONE * 2)}, 2),
    ],
)
def test_values(text: str, bind: dict[str, Any], expected: float) -> None:
    func = rlx.loads("input x: [3]; " + text, bind=bind)
    if func.param_names() == ["f_0.w"]:
        func = func.init_params(seed=0)
    np.testing.assert_array_equal(func(x=ONE), np.full(3, expected))


@pytest.mark.parametrize(
    "dtype", ["float32", "float16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"]
)
def test_arrays_keep_their_dtype(dtype: str) -> None:
    array = np.array([1, 0, 1]).astype(dtype)
    result = rlx.loads("bind t; out y = t;", bind={"t": array})()
    assert result.dtype == array.dtype
    np.testing.assert_array_equal(result, array)


def test_bfloat16_and_double() -> None:
    result = rlx.loads("bind t; out y = t;", bind={"t": np.ones(2, ml_dtypes.bfloat16)})()
    assert result.dtype == ml_dtypes.bfloat16
    with pytest.warns(rlx.RlxWarning, match="float64"):
        func = rlx.loads("bind t; out y = t;", bind={"t": np.ones(2)})
    assert func().dtype == np.float64


def test_the_array_is_copied() -> None:
    array = ONE.copy()
    func = rlx.loads("bind t; input x: [3]; out y = t * x;", bind={"t": array})
    array[:] = 100
    np.testing.assert_array_equal(func(x=ONE), ONE)


def test_a_strided_or_read_only_array() -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4)[:, ::2].T
    array.flags.writeable = False
    np.testing.assert_array_equal(rlx.loads("bind t; out y = t;", bind={"t": array})(), array)


# ------------------------------------------------------------------------------------------------ parameters
def test_parameters_are_named_by_their_path_or_by_themselves() -> None:
    layers = [{"w": rlx.Param(np.eye(3, dtype=np.float32)), "b": rlx.Param(ONE, name=f"bias{k}")} for k in range(2)]
    text = (
        "bind layers[]; input x: [?, 3]; repeat i in 0..2 { let x = x @ layers[i].w + layers[i].b; } out loss = sum(x);"
    )
    func = rlx.loads(text, bind={"layers": layers})
    assert func.param_names() == ["layers.0.w", "bias0", "layers.1.w", "bias1"]
    assert float(func(x=ONE[None])) == 9
    grads = func.grad_all()(x=ONE[None])
    np.testing.assert_array_equal(grads[3], ONE)


def test_one_parameter_under_two_names_is_one() -> None:
    w = rlx.Param(ONE * 2)
    func = rlx.loads("bind a, b; input x: [3]; out loss = sum(x * a * b);", bind={"a": w, "b": w})
    assert func.param_names() == ["a"]
    np.testing.assert_array_equal(func.grad(["a"])(x=ONE), ONE * 4)


def test_two_parameters_of_one_name() -> None:
    bind = {"a": rlx.Param(ONE, "w"), "b": rlx.Param(ONE, "w")}
    assert errors("bind a, b; out y = a + b;", bind) == [("E0212", "b")]


# ------------------------------------------------------------------------------------------------ what is wrong
@pytest.mark.parametrize(
    ("text", "bind", "found"),
    [
        ("bind t; out y = x;", {}, [("E0215", "t")]),
        ("bind t[]; out y = x;", {}, [("E0215", "t[]")]),
        ("out y = x;", {"t": ONE}, [("E0201", "")]),
        ("bind t; out y = x * t;", {"u": ONE}, [("E0201", ""), ("E0215", "t")]),
        ("bind t; out y = x;", {"t": [1, 2]}, [("E0305", "t")]),
        ("bind t[]; out y = x;", {"t": ONE}, [("E0305", "t[]")]),
        ("bind t; out y = x;", {"t": None}, [("E0306", "t")]),
        ("bind t; out y = x;", {"t": len}, [("E0306", "t")]),
        ("bind t; out y = x;", {"t": np.array(["a"])}, [("E0806", "t")]),
        ("bind t; out y = x * t.v;", {"t": {"w": 1}}, [("E0207", "v")]),
        ("bind t; out y = x * t;", {"t": {"w": 1}}, [("E0304", "t")]),
        ("bind t[]; out y = x * t[2];", {"t": [1, 2]}, [("E0406", "2")]),
        ("bind t[]; out y = x * t[0].w;", {"t": [ONE]}, [("E0207", "w")]),
        ("bind x; out y = x;", {"x": ONE}, [("E0210", "x")]),
        ("bind t, t; out y = x;", {"t": ONE}, [("E0211", "t")]),
    ],
)
def test_errors(text: str, bind: dict[str, Any], found: list[tuple[str, str]]) -> None:
    assert errors("input x: [3]; " + text, bind) == found


def test_nothing_is_read_of_an_object_but_what_the_text_asks_for() -> None:
    class Module:
        w = ONE * 3

        @property
        def trap(self) -> Any:
            raise AssertionError("was read")

    func = rlx.loads("bind m; input x: [3]; out y = x * m.w;", bind={"m": Module()})
    np.testing.assert_array_equal(func(x=ONE), ONE * 3)


@pytest.mark.parametrize("device", ["reference", "cpu", "opencl"])
def test_on_every_device(device: str) -> None:
    func = rlx.loads(
        "bind t; input x: [?b, 3]; out loss = sum((x @ t.w) ** 2);",
        bind={"t": {"w": rlx.Param(np.eye(3, dtype=np.float32))}},
    )
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_allclose(func.grad(["t.w"]).run_on(device, x=x)[0], 2 * x.T @ x)
