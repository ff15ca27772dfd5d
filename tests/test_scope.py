"""Building graphs from Python."""

from __future__ import annotations

import numpy as np
import pytest

import rlxlang as rlx
from rlxlang.ir import SURFACES
from rlxlang.types import F32, I32, Dim

A = np.array([[1.0, -2.0, 3.0], [-4.0, 5.0, -6.0]], np.float32)
B = np.array([[2.0, 2.0, -2.0], [3.0, -3.0, 4.0]], np.float32)
LEFT, RIGHT = np.array([7, -7, 0], np.int32), np.array([2, 2, 5], np.int32)


def evaluate(build: object, **inputs: np.ndarray) -> np.ndarray:
    """The value of an expression of tensors, by the reference device."""

    def body(s: rlx.GraphScope) -> rlx.Tensor:
        tensors = {n: s.input(n, a.shape, a.dtype) for n, a in inputs.items()}
        return build(**tensors)  # type: ignore[operator]

    return rlx.Func("f", body).run_on("reference", inputs)[0]


@pytest.mark.parametrize(
    ("expression", "want"),
    [
        (lambda a, b: a + b, A + B),
        (lambda a, b: a - b, A - B),
        (lambda a, b: a * b, A * B),
        (lambda a, b: a / b, A / B),
        (lambda a, b: a // b, A // B),
        (lambda a, b: a % b, A % B),
        (lambda a, b: -a, -A),
        (lambda a, b: +a, A),
        (lambda a, b: abs(a), abs(A)),
        (lambda a, b: a**2, A**2),
        (lambda a, b: 2.0**b, 2.0**B),
        (lambda a, b: 1 + a, 1 + A),
        (lambda a, b: 1 - a, 1 - A),
        (lambda a, b: 2 * a, 2 * A),
        (lambda a, b: 2 / a, 2 / A),
        (lambda a, b: 7 // a, 7 // A),
        (lambda a, b: 7 % a, 7 % A),
        (lambda a, b: a @ b.t(), A @ B.T),
        (lambda a, b: a == b, A == B),
        (lambda a, b: a != b, A != B),
        (lambda a, b: a < b, A < B),
        (lambda a, b: a <= b, A <= B),
        (lambda a, b: a > b, A > B),
        (lambda a, b: a >= b, A >= B),
        (lambda a, b: a > 1, A > 1),
        (lambda a, b: (a > 0) & (b > 0), (A > 0) & (B > 0)),
        (lambda a, b: (a > 0) | (b > 0), (A > 0) | (B > 0)),
        (lambda a, b: (a > 0) ^ (b > 0), (A > 0) ^ (B > 0)),
        (lambda a, b: ~(a > 0), ~(A > 0)),
        (lambda a, b: True & (a > 0), A > 0),
        (lambda a, b: np.float32([1, 2, 3]) + a, np.float32([1, 2, 3]) + A),
        (lambda a, b: [1.0, 2.0, 3.0] - a, np.float32([1, 2, 3]) - A),
        (lambda a, b: np.float32([[1, 2], [3, 4]]) @ a, np.float32([[1, 2], [3, 4]]) @ A),
        (lambda a, b: a.sum(0), A.sum(0)),
        (lambda a, b: a.sum(axes=[0, 1]), A.sum()),
        (lambda a, b: a.maximum(b), np.maximum(A, B)),
        (lambda a, b: a.relu().exp(), np.exp(np.maximum(A, 0))),
        (lambda a, b: rlx.cat([a, b], 1), np.concatenate([A, B], 1)),
        (lambda a, b: rlx.cat([a, b]), np.concatenate([A, B])),
        (lambda a, b: rlx.stack([a, b], axis=1), np.stack([A, B], 1)),
        (lambda a, b: a.reshape([3, 2]), A.reshape(3, 2)),
        (lambda a, b: a.cast("I32"), A.astype(np.int32)),
        (lambda a, b: a.cast(np.int32), A.astype(np.int32)),
        (lambda a, b: sum(row for row in a), A.sum(0)),
        (lambda a, b: a[len(a) - 1], A[-1]),
        (lambda a, b: a.scope.where(a > b, a, 0.0), np.where(A > B, A, 0)),
    ],
)
def test_operators_and_methods(expression: object, want: np.ndarray) -> None:
    got = evaluate(expression, a=A, b=B)
    assert got.dtype == np.asarray(want).dtype
    np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize(
    ("expression", "want"),
    [
        (lambda i, j: i // j, LEFT // RIGHT),
        (lambda i, j: i % j, LEFT % RIGHT),
        (lambda i, j: i & 3, LEFT & 3),
        (lambda i, j: i | j, LEFT | RIGHT),
        (lambda i, j: 5 ^ i, 5 ^ LEFT),
        (lambda i, j: ~i, ~LEFT),
        (lambda i, j: i * 1.5, (LEFT * 1.5).astype(np.float32)),
    ],
)
def test_integers(expression: object, want: np.ndarray) -> None:
    got = evaluate(expression, i=LEFT, j=RIGHT)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    "index",
    [
        0,
        -1,
        np.int64(1),
        (0, 2),
        (slice(None), 1),
        (slice(0, 1), slice(1, None)),
        (..., 0),
        (0, ...),
        (None, 0),
        (slice(None), None, slice(None, None, 2)),
        (slice(None), slice(-2, None)),
        slice(None),
    ],
)
def test_index(index: object) -> None:
    np.testing.assert_array_equal(evaluate(lambda a: a[index], a=A), A[index])  # type: ignore[index]


def test_index_by_tensor_and_list() -> None:
    ids = np.array([2, 0, 0], np.int32)
    np.testing.assert_array_equal(evaluate(lambda a, i: a[:, i], a=A, i=ids), A[:, ids])
    np.testing.assert_array_equal(evaluate(lambda a: a[[1, 0]], a=A), A[[1, 0]])


@pytest.mark.parametrize(
    ("expression", "error", "words"),
    [
        (lambda a, b: a[5], rlx.RlxShapeError, ["5"]),
        (lambda a, b: a[0, 0, 0], rlx.RlxShapeError, ["2 axes", "3 items"]),
        (lambda a, b: a[True], rlx.RlxTypeError, ["Bool"]),
        (lambda a, b: a["x"], rlx.RlxTypeError, ["str"]),
        (lambda a, b: a[1.5:], rlx.RlxTypeError, ["integers"]),
        (lambda a, b: a @ b, rlx.RlxShapeError, ["3", "2"]),
        (lambda a, b: a + b[:, :2], rlx.RlxShapeError, ["[2, 3]", "[2, 2]"]),
        (lambda a, b: a & b, rlx.RlxTypeError, ["F32"]),
        (lambda a, b: a.sum(7), rlx.RlxShapeError, ["7"]),
        (lambda a, b: a.sum(axs=0), rlx.RlxTypeError, ["axs"]),
        (lambda a, b: a.cast("F33"), rlx.RlxNameError, ["F33"]),
        (lambda a, b: a + "x", rlx.RlxError, []),
        (lambda a, b: a if a > 0 else b, rlx.RlxTypeError, ["where"]),
        (lambda a, b: float(a), rlx.RlxTypeError, ["no value"]),
        (lambda a, b: np.asarray(a), rlx.RlxTypeError, ["no value"]),
        (lambda a, b: list(a.sum()), rlx.RlxTypeError, ["iterated"]),
        (lambda a, b: rlx.cat([]), rlx.RlxTypeError, ["at least one"]),
        (lambda a, b: 3, rlx.RlxTypeError, ["int is returned"]),
        (lambda a, b: [], rlx.RlxValueError, ["no output"]),
    ],
)
def test_faults(expression: object, error: type[Exception], words: list[str]) -> None:
    with pytest.raises(error) as caught:
        evaluate(expression, a=A, b=B)
    for word in words:
        assert word in str(caught.value), str(caught.value)


def test_unknown_methods_suggest() -> None:
    with pytest.raises(AttributeError, match="softmax"):
        evaluate(lambda a: a.softmx(), a=A)
    scope = rlx.GraphScope()
    assert not hasattr(scope.input("x", [1]), "no_such_op")
    assert "softmax" in dir(scope.input("y", [1]))
    with pytest.raises(AttributeError, match="no_such"):
        scope.no_such(1)


def test_declarations() -> None:
    s = rlx.GraphScope()
    x = s.input("x", ["?", "?n", 3, Dim.axis("?n") * 2], doc="the data")
    assert x.shape == (Dim.axis("?"), Dim.axis("?n"), 3, Dim.axis("?n") * 2)
    assert x.rank == x.ndim == 4
    assert x.dtype == F32
    assert s.input("i", 4, np.int32).dtype == I32
    assert s.param("p", [], int if np.dtype(int) == np.int64 else "I64").shape == ()
    assert repr(x).startswith("<Tensor input [F32; ?, ?n, 3")
    for call, error in (
        (lambda: s.param("x", [1]), rlx.RlxNameError),
        (lambda: s.input("", [1]), rlx.RlxTypeError),
        (lambda: s.input("q", [-1]), rlx.RlxShapeError),
        (lambda: s.input("q", ["n"]), rlx.RlxShapeError),
        (lambda: s.input("q", [1.5]), rlx.RlxShapeError),
        (lambda: s.input("q", [True]), rlx.RlxShapeError),
        (lambda: s.input("q", [1], "string"), rlx.RlxNameError),
        (lambda: s.input("q", [1], "complex128"), rlx.RlxNameError),
        (lambda: s.param("q", [1], init="nothing()"), rlx.RlxNameError),
    ):
        with pytest.raises(error):
            call()


def test_constants() -> None:
    s = rlx.GraphScope()
    assert s.constant(1).dtype.name == "I32"
    assert s.constant(1.5).dtype.name == "F32"
    assert s.constant(True).dtype.name == "Bool"
    assert s.constant([[1, 2], [3, 4]]).shape == (2, 2)
    assert s.constant(np.int8([1])).dtype.name == "I8"
    assert s.constant([1, 2], "F16").dtype.name == "F16"
    assert s.constant(np.float64([1, 2]), "F32").dtype.name == "F32"
    with pytest.warns(rlx.RlxWarning, match="F64"):
        assert s.constant(np.float64([1, 2])).dtype.name == "F64"
    for bad in ("x", None, [[1], [1, 2]], np.array(["a"])):
        with pytest.raises(rlx.RlxError):
            s.constant(bad)


def test_tensors_of_two_graphs_do_not_meet() -> None:
    x, y = rlx.GraphScope().input("x", [1]), rlx.GraphScope().input("y", [1])
    for call in (lambda: x + y, lambda: x.maximum(y), lambda: rlx.cat([x, y]), lambda: x[y]):
        with pytest.raises(rlx.RlxTypeError, match="two graphs"):
            call()


def test_weak_numbers_keep_the_dtype() -> None:
    s = rlx.GraphScope()
    half = s.input("h", [2], "F16")
    for result in (half + 1, half * 2.5, 1.0 / half, half * np.float64(2.0), half.maximum(0)):
        assert result.dtype.name == "F16"
    assert (half * np.float32(2)).dtype.name == "F32"


def test_every_method_is_there() -> None:
    x = rlx.GraphScope().input("x", [2])
    for name, surface in SURFACES.items():
        if surface.method:
            method = getattr(x, name)
            assert method.__doc__.startswith(surface.name + "(")
