"""From texts and files to functions."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

import rlxlang as rlx

TEXT = """
config n = 3;
config scale: float = 2.0;
input x: [n];
out y = x * scale;
"""


def test_loads() -> None:
    func = rlx.loads(TEXT)
    assert func.name == "graph"
    assert func(x=[1, 2, 3]).tolist() == [2, 4, 6]
    assert rlx.loads(TEXT, name="double").name == "double"
    assert rlx.loads('graph "own";' + TEXT, name="double").name == "own"


def test_configs() -> None:
    assert rlx.loads(TEXT, n=2, scale=3)(x=[1, 2]).tolist() == [3, 6]
    assert rlx.loads(TEXT, config={"n": np.int64(1), "scale": np.float32(0.5)})(x=[1]).tolist() == [0.5]
    with pytest.raises(rlx.RlxTypeError, match="config `n` is given twice"):
        rlx.loads(TEXT, config={"n": 1}, n=2)
    with pytest.raises(rlx.RlxError, match="scal"):
        rlx.loads(TEXT, scal=2)


def test_load(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "model.rlx"
    for factor in (2, 3):
        file.write_text(f"input x: [2]; out y = x * {factor}.0;")
        for path in (file, str(file)):
            func = rlx.load(path)
            assert func.name == "model"
            assert func(x=[1, 2]).tolist() == [factor, 2 * factor]


def test_unreadable_files(tmp_path: pathlib.Path) -> None:
    absent = tmp_path / "absent.rlx"
    with pytest.raises(rlx.RlxSyntaxError, match=r"absent\.rlx"):
        rlx.load(absent)
    assert [d.code for d in rlx.check(absent)] == ["E0128"]
    binary = tmp_path / "binary.rlx"
    binary.write_bytes(b"input \xff")
    with pytest.raises(rlx.RlxSyntaxError, match="UTF-8 at byte 6"):
        rlx.load(binary)
    assert [d.code for d in rlx.check(str(binary))] == ["E0127"]
    with pytest.raises(rlx.RlxTypeError, match="`load` takes a path"):
        rlx.loads(absent)  # type: ignore[arg-type]


def test_check(tmp_path: pathlib.Path) -> None:
    assert rlx.check(TEXT) == []
    wrong = "input x: [2]; out y = nothing(x); out z = w;"
    assert len([d for d in rlx.check(wrong) if d.is_error]) == 2
    file = tmp_path / "m.rlx"
    file.write_text(wrong)
    assert len([d for d in rlx.check(str(file)) if d.is_error]) == 2
    assert rlx.check("input x: [2]; out y = x; // m.rlx\n") == []


def test_errors_have_places() -> None:
    with pytest.raises(rlx.RlxError) as caught:
        rlx.loads("input x: [2];\nout y = x +;", name="broken.rlx")
    assert "broken.rlx:2:" in str(caught.value)
    with pytest.raises(rlx.RlxNameError) as unknown:
        rlx.loads("input x: [2];\nout y = relo(x);")
    assert "relu" in str(unknown.value)


def test_warnings_point_at_the_caller() -> None:
    with pytest.warns(rlx.RlxWarning, match="`z` is not used") as caught:
        rlx.loads("input x: [2]; input z: [2]; out y = x;")
    assert caught[0].filename == __file__


def test_a_guard_names_the_source_line() -> None:
    func = rlx.loads("input x: [?n];\ninput y: [?m];\nout z = x + y;")
    with pytest.raises(rlx.RlxRuntimeError) as caught:
        func.run(x=[1, 2], y=[1, 2, 3])
    for word in ("<text>:3:", "`?n` = 2", "`?m` = 3", "input `x`", "input `y`"):
        assert word in str(caught.value), str(caught.value)


def test_initialisers_of_the_source() -> None:
    func = rlx.loads("input x: [4]; param w: [4, 3] = he_normal(); param b: [3] = 0.25; out y = x @ w + b;")
    bound = func.init_params(seed=0)
    assert bound.param_binding("b").tolist() == [0.25] * 3
    assert "he_normal()" in bound.summary()


def test_expr() -> None:
    def build(s: rlx.GraphScope) -> rlx.Tensor:
        h = s.input("h", [3])
        for k in range(2):
            h = rlx.expr("relu(h * k) + sum(h)", h=h, k=float(k + 1))
        return h

    func = rlx.Func("f", build)
    x = np.float32([1, -2, 3])
    want = x
    for k in (1, 2):
        want = np.maximum(want * k, 0) + want.sum()
    np.testing.assert_allclose(func(h=x), want)


def test_expr_faults() -> None:
    s = rlx.GraphScope()
    x = s.input("x", [3])
    with pytest.raises(rlx.RlxTypeError, match="at least one Tensor"):
        rlx.expr("1 + 2")
    with pytest.raises(rlx.RlxNameError, match="unknown name `y`"):
        rlx.expr("x + y", x=x)
    with pytest.raises(rlx.RlxSyntaxError):
        rlx.expr("x +", x=x)
    with pytest.raises(rlx.RlxShapeError):
        rlx.expr("x + y", x=x, y=s.input("y", [4]))
