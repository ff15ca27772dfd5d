"""Conversion of arrays, sizes of axes and guards."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import rlxlang as rlx
import rlxlang.ops
from rlxlang.inputs import Signature, Sizes, check_guards, convert
from rlxlang.ir import Builder, Graph, GraphOutput, SourcedGuard, declare
from rlxlang.types import BF16, BOOL, C64, F16, F32, F64, I8, I32, I64, U8, Dim, DType, Guard

N, M = Dim.axis("?n"), Dim.axis("?m")


def graph_of(*inputs: tuple[str, DType, tuple[object, ...], str], guards: tuple[Guard, ...] = ()) -> Graph:
    b = Builder()
    nodes = [b.input(name, dtype, shape, kind) for name, dtype, shape, kind in inputs]
    for guard in guards:
        b.require(SourcedGuard(guard))
    return b.finish("g", [declare(n) for n in nodes], [GraphOutput("y", nodes[0])])


class WithArray:
    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return self.array


class WithDlpack:
    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **options: object) -> object:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


@pytest.mark.parametrize(
    ("value", "dtype", "want"),
    [
        (3, F32, np.float32(3)),
        (3.5, F16, np.float16(3.5)),
        (3, I8, np.int8(3)),
        (True, BOOL, np.bool_(True)),
        (1 + 2j, C64, np.complex64(1 + 2j)),
        ([1, 2.5], F64, np.array([1, 2.5])),
        ([[1, 2], [3, 4]], I64, np.array([[1, 2], [3, 4]])),
        ([1, 2], F32, np.float32([1, 2])),
        ([], I32, np.zeros(0, np.int32)),
        ([[], []], F32, np.zeros((2, 0), np.float32)),
        (np.float64([1, 2]), F32, np.float32([1, 2])),
        (np.int64([1, -2]), I32, np.int32([1, -2])),
        (np.float64(2), F32, np.float32(2)),
        (WithArray(np.float32([1, 2])), F32, np.float32([1, 2])),
        (WithDlpack(np.float32([1, 2])), F32, np.float32([1, 2])),
        (np.float32([1, 2]).astype(">f4"), F32, np.float32([1, 2])),
        (np.array([1, 2], ml_dtypes.bfloat16), BF16, np.array([1, 2], ml_dtypes.bfloat16)),
        ([1.5], BF16, np.array([1.5], ml_dtypes.bfloat16)),
        ([np.inf, -np.inf], F16, np.float16([np.inf, -np.inf])),
    ],
)
def test_accepted(value: object, dtype: DType, want: np.ndarray) -> None:
    got = convert(value, dtype, "input `x`")
    assert got.dtype == dtype.numpy
    assert got.dtype.isnative
    assert got.flags.c_contiguous
    assert got.flags.aligned
    np.testing.assert_array_equal(got, want)
    assert got.shape == np.shape(want)


@pytest.mark.parametrize(
    ("value", "dtype", "error", "words"),
    [
        (1.5, I32, rlx.RlxTypeError, ["I32", "float"]),
        (True, F32, rlx.RlxTypeError, ["F32", "bool"]),
        (1, BOOL, rlx.RlxTypeError, ["Bool"]),
        (np.int32([1]), F32, rlx.RlxTypeError, ["F32", "int32", "astype(np.float32)"]),
        (np.float32([1]), F64, rlx.RlxTypeError, ["F64", "float32"]),
        (np.float64([1]), F16, rlx.RlxTypeError, ["F16"]),
        (np.int64([1]), F32, rlx.RlxTypeError, ["int64"]),
        (np.int32([1]), I64, rlx.RlxTypeError, ["I64"]),
        (300, U8, rlx.RlxValueError, ["300", "255"]),
        (-1, U8, rlx.RlxValueError, ["-1"]),
        (np.int64([2**31]), I32, rlx.RlxValueError, ["2147483648"]),
        (np.float64([1e300]), F32, rlx.RlxValueError, ["1e+300", "F32"]),
        (1e300, F32, rlx.RlxValueError, ["F32"]),
        (2**70, I64, rlx.RlxTypeError, ["64 bits"]),
        ([[1], [1, 2]], F32, rlx.RlxTypeError, ["ragged"]),
        ("abc", F32, rlx.RlxTypeError, ["str"]),
        (None, F32, rlx.RlxTypeError, ["NoneType"]),
        (["a"], F32, rlx.RlxTypeError, ["no numbers"]),
        (np.ma.masked_array([1.0, 2.0], [False, True]), F64, rlx.RlxTypeError, ["masked"]),
    ],
)
def test_refused(value: object, dtype: DType, error: type[Exception], words: list[str]) -> None:
    with pytest.raises(error) as caught:
        convert(value, dtype, "input `x`")
    for word in ["input `x`", *words]:
        assert word in str(caught.value)


def test_strides_and_alignment() -> None:
    base = np.arange(24, dtype=np.float32).reshape(4, 6)
    for view in (base[::2, ::-1], base.T, base[:, 1:3], np.broadcast_to(np.float32(3), (2, 3))):
        got = convert(view, F32, "x")
        assert got.flags.c_contiguous
        np.testing.assert_array_equal(got, view)
    raw = np.zeros(4 * 5 + 1, np.uint8)
    unaligned = raw[1:].view(np.float32)
    assert not unaligned.flags.aligned
    assert convert(unaligned, F32, "x").flags.aligned
    base.flags.writeable = False
    assert convert(base, F32, "x") is base


def test_an_exact_array_is_not_copied() -> None:
    array = np.zeros((2, 3), np.float32)
    assert convert(array, F32, "x") is array
    scalar = np.array(2.0, np.float32)
    assert convert(scalar, F32, "x").shape == ()


def test_sizes_of_axes() -> None:
    graph = graph_of(("x", F32, (N, 3), "input"), ("w", F32, (3, M), "param"), ("z", F32, (2 * N, N + M), "input"))
    signature = Signature(graph)
    bound = {"w": np.zeros((3, 4), np.float32)}
    arrays, sizes = signature.prepare((np.zeros((5, 3)), np.zeros((10, 9))), bound)
    assert sizes == {"?n": 5, "?m": 4}
    assert [a.dtype.name for a in arrays] == ["float32", "float32"]


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        (((5, 2), (10, 9)), ["input `x`", "[5, 2]", "[?n, 3]"]),
        (((5,), (10, 9)), ["rank is 1", "expected 2"]),
        (((5, 3), (11, 9)), ["input `z`", "2*?n", "10", "`?n` is 5", "axis 0 of input `x`"]),
        (((5, 3), (10, 8)), ["?m + ?n", "axis 1 of param `w`"]),
    ],
)
def test_wrong_shapes(shapes: tuple[tuple[int, ...], ...], words: list[str]) -> None:
    graph = graph_of(("x", F32, (N, 3), "input"), ("w", F32, (3, M), "param"), ("z", F32, (2 * N, N + M), "input"))
    with pytest.raises(rlx.RlxShapeError) as caught:
        Signature(graph).prepare([np.zeros(s, np.float32) for s in shapes], {"w": np.zeros((3, 4), np.float32)})
    for word in words:
        assert word in str(caught.value), str(caught.value)


def test_one_axis_of_two_sizes() -> None:
    graph = graph_of(("x", F32, (N, 3), "input"), ("y", F32, (N,), "input"))
    with pytest.raises(rlx.RlxShapeError) as caught:
        Signature(graph).prepare([np.zeros((5, 3)), np.zeros(4)], {})
    for word in ("`?n`", "5 in axis 0 of input `x`", "4 in axis 0 of input `y`"):
        assert word in str(caught.value)


def test_an_axis_is_solved_from_a_derived_dim() -> None:
    graph = graph_of(("x", F32, (2 * N + 1,), "input"))
    assert Signature(graph).prepare([np.zeros(7)], {})[1] == {"?n": 3}
    with pytest.raises(rlx.RlxShapeError, match="no size of"):
        Signature(graph).prepare([np.zeros(6)], {})


def test_an_axis_that_no_input_tells() -> None:
    graph = graph_of(("x", F32, (N * M,), "input"))
    with pytest.raises(rlx.RlxRuntimeError, match="cannot be told"):
        Signature(graph).prepare([np.zeros(6)], {})


@pytest.mark.parametrize(
    ("guard", "good", "bad", "words"),
    [
        (Guard(N, "==", M, "the sizes"), (3, 3), (3, 4), ["`?n` = 3", "`?m` = 4", "differ"]),
        (Guard(N, "<=", 4, "the bound"), (4, 1), (5, 1), ["`?n` = 5", "more than 4"]),
        (Guard(4, "divides", N, "the heads"), (8, 1), (6, 1), ["`?n` = 6", "multiple of 4"]),
    ],
)
def test_guards(guard: Guard, good: tuple[int, int], bad: tuple[int, int], words: list[str]) -> None:
    signature = Signature(graph_of(("x", F32, (N,), "input"), ("z", F32, (M,), "input"), guards=(guard,)))
    signature.prepare([np.zeros(n) for n in good], {})
    for _ in range(2):  # a violation is not remembered as checked
        with pytest.raises(rlx.RlxRuntimeError) as caught:
            signature.prepare([np.zeros(n) for n in bad], {})
        for word in (guard.what, "axis 0 of input `x`", *words):
            assert word in str(caught.value), str(caught.value)


def test_a_guard_that_divides_by_zero() -> None:
    sizes = Sizes()
    with pytest.raises(rlx.RlxRuntimeError, match="divides by zero"):
        check_guards([SourcedGuard(Guard(M // N, "==", 1, "x"))], {"?n": 0, "?m": 3}, sizes)


def test_names() -> None:
    signature = Signature(graph_of(("alpha", F32, (), "input"), ("beta", F32, (), "input"), ("w", F32, (), "param")))
    assert signature.by_position({"beta": 2}, {"alpha": 1}) == (1, 2)
    assert signature.by_position([("beta", 2), ("alpha", 1)], {}) == (1, 2)
    for inputs, named, error, word in (
        ({"alpha": 1, "beta": 2, "gamma": 3}, {}, rlx.RlxNameError, "gamma"),
        ({"alpah": 1, "beta": 2}, {}, rlx.RlxNameError, "did you mean `alpha`"),
        ({"w": 1, "alpha": 1, "beta": 1}, {}, rlx.RlxNameError, "`w`"),
        ({"alpha": 1}, {}, rlx.RlxRuntimeError, "`beta`"),
        ({"alpha": 1, "beta": 2}, {"alpha": 1}, rlx.RlxNameError, "twice"),
        (5, {}, rlx.RlxTypeError, "int"),
    ):
        with pytest.raises(error, match=word):
            signature.by_position(inputs, named)  # type: ignore[arg-type]
    with pytest.raises(rlx.RlxRuntimeError, match="`w` has no value"):
        signature.require_params({})
    with pytest.raises(rlx.RlxError, match="2 inputs, 3"):
        signature.prepare((1, 2, 3), {})
    with pytest.raises(rlx.RlxRuntimeError, match="`beta`"):
        signature.prepare((1,), {})
