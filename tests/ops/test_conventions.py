"""Each documented convention of derivatives and special values, pinned once."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tests.ops.calls import call, pull, push

INF, NAN = np.inf, np.nan


def v(*values: float) -> np.ndarray:
    return np.array(values, np.float64)


# ------------------------------------------------------------------------------------------ ties and kinks


def test_ties_of_elementwise_extrema_share() -> None:
    for name in ("maximum", "minimum"):
        left, right = pull(name, v(1, 2, 3), v(1, 5, 0))
        assert left[0] == right[0] == 0.5
        assert_array_equal(left + right, np.ones(3))
        assert push(name, v(1.0), v(1.0), tangents={"x0": v(1.0)})[0] == 0.5
        assert push(name, v(1.0), v(1.0), tangents={"x0": v(1.0), "x1": v(3.0)})[0] == 2


def test_ties_of_reduced_extrema_share() -> None:
    assert_allclose(pull("max", v(1, 3, 3, 3)), v(0, 1, 1, 1) / 3)
    assert_allclose(pull("min", v(1, 3, 1)), v(0.5, 0, 0.5))
    assert_allclose(push("max", v(2, 2), tangents={"x0": v(1, 3)}), 2)


@pytest.mark.parametrize("name", ["relu", "abs", "relu6", "hard_swish", "hardshrink"])
def test_zero_derivative_at_the_kink_0(name: str) -> None:
    want = 0.5 if name == "hard_swish" else 0  # hard_swish is smooth at 0
    assert pull(name, v(0.0))[0] == want


def test_other_kinks() -> None:
    assert_array_equal(pull("relu6", v(0, 6, 3)), v(0, 0, 1))
    assert_array_equal(pull("hard_tanh", v(-1, 1, 0)), v(0, 0, 1))
    assert_array_equal(pull("hard_sigmoid", v(-3, 3)), v(0, 0))
    assert_array_equal(pull("hard_swish", v(-3, 3)), v(0, 0))
    assert_array_equal(pull("leaky_relu", v(0.0), slope=0.25), v(0.25))


def test_clamp_passes_at_its_bounds() -> None:
    assert_array_equal(pull("clamp", v(-2, -1, 0, 1, 2), -1.0, 1.0), v(0, 1, 1, 1, 0))
    assert_array_equal(pull("clamp_min", v(-1, 0, 1), 0.0), v(0, 1, 1))
    assert_array_equal(pull("clamp_max", v(-1, 0, 1), 0.0), v(1, 1, 0))


def test_round_passes_straight_through() -> None:
    assert_array_equal(call("round", v(0.5, 1.5, 2.5, -0.5)), v(0, 2, 2, -0.0))
    assert_array_equal(pull("round", v(0.3, 0.7)), v(1, 1))
    assert_array_equal(pull("floor", v(0.3, 0.7)), v(0, 0))


# ------------------------------------------------------------------------------------------ nothing leaks


@pytest.mark.parametrize(
    ("name", "at"),
    [
        ("log", 0.0), ("sqrt", 0.0), ("rsqrt", 0.0), ("recip", 0.0), ("asin", 1.0), ("acos", -1.0), ("log1p", -1.0),
        ("log2", 0.0), ("log10", 0.0),
    ],
)  # fmt: skip
def test_a_zero_cotangent_gives_zero(name: str, at: float) -> None:
    assert_array_equal(pull(name, v(at), ct=0.0), v(0))
    assert_array_equal(push(name, v(at), tangents={"x0": v(0.0)}), v(0))
    assert not np.isfinite(pull(name, v(at), ct=1.0)[0])


def test_division_and_powers_do_not_leak() -> None:
    assert_array_equal(pull("div", v(1.0), v(0.0), ct=0.0), [v(0), v(0)])
    assert_array_equal(pull("pow", v(0.0), v(-1.0), ct=0.0), [v(0), v(0)])
    assert_array_equal(pull("pow", v(0.0), v(0.5), ct=0.0), [v(0), v(0)])
    assert_array_equal(pull("atan2", v(0.0), v(0.0), ct=0.0), [v(0), v(0)])


def test_where_selects_cotangents() -> None:
    mask = np.array([True, False])
    left, right = pull("where", mask, v(1, NAN), v(INF, 2), ct=v(5, 7))
    assert_array_equal(left, v(5, 0))
    assert_array_equal(right, v(0, 7))


def test_square_is_exact_for_negative_numbers() -> None:
    assert_array_equal(pull("pow", v(-3, 0, 2), 2), v(-6, 0, 4))
    assert_array_equal(pull("pow", v(-2.0), 3), v(12))
    assert_array_equal(pull("pow", v(0, -2), v(2, 2), wrt=("x0",)), v(0, -4))
    assert_array_equal(call("pow", v(0.0), v(0.0)), v(1))
    assert_array_equal(pull("pow", v(0.0), v(0.0), wrt=("x0",)), v(0))


def test_norm_and_std_have_the_subgradient_0() -> None:
    assert_array_equal(pull("norm", v(0, 0)), v(0, 0))
    assert_array_equal(pull("norm", v(0, 0), p=3), v(0, 0))
    assert_array_equal(pull("std", v(2, 2, 2)), v(0, 0, 0))
    assert_array_equal(push("norm", v(0, 0), tangents={"x0": v(1, 1)}), 0)
    assert_array_equal(pull("hypot", v(0.0), v(0.0)), [v(0), v(0)])


def test_products_are_differentiated_without_division() -> None:
    assert_array_equal(pull("prod", v(2, 0, 3)), v(0, 6, 0))
    assert_array_equal(pull("prod", v(0, 0, 3)), v(0, 0, 0))
    assert_array_equal(pull("cumprod", v(2, 0, 3)), v(1 + 0 + 0, 2 + 6, 0))


def test_cummax_sends_its_gradient_to_the_running_argument() -> None:
    assert_array_equal(pull("cummax", v(1, 3, 2, 3, 4)), v(1, 3, 0, 0, 1))
    assert_array_equal(pull("cummin", v(2, 1, 3)), v(1, 2, 0))
    assert_array_equal(pull("cummax", v(1, 3, 2), reverse=True), v(0, 2, 1))
    assert_array_equal(pull("cummax", v(1, NAN, 5)), v(1, 2, 0))


def test_remainders() -> None:
    left, right = pull("mod", v(-1, 5.5), v(3, 2))
    assert_array_equal(left, v(1, 1))
    assert_array_equal(right, v(1, -2))
    assert_array_equal(pull("floor_div", v(5.0), v(2.0)), [v(0), v(0)])


def test_indices_and_gathers() -> None:
    ids = np.array([0, 2, 2], np.int32)
    assert_array_equal(pull("take", v(1, 2, 3), ids, ct=v(1, 10, 100)), v(1, 0, 110))
    assert_array_equal(pull("scatter_add", v(0, 0), np.array([1, 1]), v(3, 4), wrt=("x2",)), v(1, 1))
    assert_array_equal(pull("scatter", v(0, 0), np.array([1, 1]), v(3, 4), wrt=("x0", "x2")), [v(1, 0), v(0, 1)])


def test_float_to_int_to_float_has_no_gradient() -> None:
    from rlxlang.interp import evaluate
    from rlxlang.ir import Builder, GraphOutput, declare
    from rlxlang.ops import emit
    from rlxlang.transforms import grad
    from rlxlang.types import F64, I32

    b = Builder()
    x = b.input("x", F64, (2,))
    y = emit.reduce_sum(b, emit.cast(b, emit.cast(b, x, I32), F64), (0,))
    graph = b.finish("g", [declare(x)], [GraphOutput("y", y)])
    assert_array_equal(evaluate(grad(graph, ["x"]), {"x": v(1.5, 2.5)})[0], v(0, 0))


def test_stop_gradient() -> None:
    assert_array_equal(pull("stop_gradient", v(1, 2)), v(0, 0))


# ------------------------------------------------------------------------------------------ softmax family


def test_softmax_of_rows_without_a_finite_entry() -> None:
    dead = np.full((2, 3), -INF)
    assert_array_equal(call("softmax", dead), np.zeros((2, 3)))
    assert_array_equal(call("log_softmax", dead), dead)
    assert_array_equal(call("logsumexp", dead, 1), v(-INF, -INF))
    labels = np.array([0, 1], np.int32)
    assert_array_equal(call("softmax_cross_entropy", dead, labels), v(INF, INF))
    assert_array_equal(call("cross_entropy", dead, np.full((2, 3), 1 / 3)), v(INF, INF))
    for name, rest in (
        ("softmax", ()), ("log_softmax", ()), ("logsumexp", (1,)), ("softmax_cross_entropy", (labels,)),
        ("cross_entropy", (np.full((2, 3), 1 / 3),)),
    ):  # fmt: skip
        assert_array_equal(pull(name, dead, *rest, wrt=("x0",)), np.zeros((2, 3)))


def test_softmax_with_infinite_entries() -> None:
    assert_array_equal(call("softmax", v(-INF, 0, 0)), v(0, 0.5, 0.5))
    assert np.all(np.isnan(call("softmax", v(INF, 0, 1))))
    assert np.all(np.isnan(call("log_softmax", v(INF, 0, 1))))


@pytest.mark.parametrize("size", [1e4, -1e4, 0.0])
def test_stability(size: float) -> None:
    x = v(size, 0.0)
    assert_allclose(call("softmax", x).sum(), 1)
    assert_allclose(call("logsumexp", x), max(size, 0.0) + (np.log(2) if size == 0 else 0))
    assert_allclose(call("softplus", v(size))[0], max(size, 0.0) + (np.log(2) if size == 0 else 0))
    loss = call("softmax_cross_entropy", x, np.array(0, np.int32))
    assert_allclose(loss, max(-size, 0.0) + (np.log(2) if size == 0 else 0))
    assert np.all(np.isfinite(pull("softmax_cross_entropy", x, np.array(0, np.int32))))
    assert_allclose(pull("softplus", v(size))[0], 0.5 if size == 0 else float(size > 0))


def test_ignored_labels_have_no_loss_and_no_gradient() -> None:
    x = np.arange(6.0).reshape(2, 3)
    labels = np.array([-100, 1], np.int32)
    assert call("softmax_cross_entropy", x, labels, ignore_index=-100)[0] == 0
    assert_array_equal(pull("softmax_cross_entropy", x, labels, ignore_index=-100)[0], v(0, 0, 0))


def test_a_fully_masked_attention_row_gives_zero() -> None:
    rng = np.random.default_rng(0)
    q, k, x = (rng.normal(size=(1, 2, 4)) for _ in range(3))
    mask = np.array([[False, False], [True, True]])
    assert_array_equal(call("attention_masked", q, k, x, mask, heads=2)[0, 0], np.zeros(4))
    gradients = pull("attention_masked", q, k, x, mask, heads=2)
    assert all(np.all(np.isfinite(g)) for g in gradients)
    assert_array_equal(gradients[0][0, 0], np.zeros(4))


def test_causal_attention_is_aligned_at_the_end() -> None:
    q, k = np.zeros((1, 2, 1)), np.zeros((1, 3, 1))
    values = np.array([[[1.0], [10.0], [100.0]]])
    from rlxlang.ir import MaskKind

    causal = call("attention", q, k, values, heads=1, mask=MaskKind("Causal"))
    assert_allclose(causal[0, :, 0], v(5.5, 37))
    window = call("attention", q, k, values, heads=1, mask=MaskKind("SlidingWindow", 1))
    assert_allclose(window[0, :, 0], v(5.5, 55))


# ------------------------------------------------------------------------------------------ special values


def test_nan_propagates() -> None:
    x = v(1, NAN, 3)
    for name in ("max", "min", "sum", "prod"):
        assert np.isnan(call(name, x))
    assert np.isnan(call("clamp", x, 0.0, 1.0)[1])
    assert np.isnan(call("maximum", x, 0.0)[1])
    assert np.isnan(call("relu", x)[1])
    assert np.isnan(call("relu6", x)[1])
    assert call("argmax", x) == 1


def test_empty_axes() -> None:
    empty = np.zeros((2, 0))
    assert_array_equal(call("sum", empty, 1), v(0, 0))
    assert_array_equal(call("prod", empty, 1), v(1, 1))
    assert_array_equal(call("any", empty, 1), [False, False])
    assert_array_equal(call("all", empty, 1), [True, True])
    assert_array_equal(call("logsumexp", empty, 1), v(-INF, -INF))
    assert_array_equal(call("norm", empty, 1), v(0, 0))
    assert np.all(np.isnan(call("mean", empty, 1)))
    assert np.all(np.isnan(call("var", empty, 1)))
    assert call("softmax", empty).shape == (2, 0)


def test_var_uses_centred_squares() -> None:
    assert_allclose(call("var", v(1, 2, 3) + 1e8), 2 / 3, rtol=1e-12)
    x = (np.array([1, 2, 3], np.float32) + np.float32(4096)).astype(np.float32)
    assert_allclose(call("layer_norm", x), v(-1.2247, 0, 1.2247), atol=1e-3)


def test_integer_division() -> None:
    a, b = np.array([7, -7, 5, -(2**31)], np.int32), np.array([2, 2, 0, -1], np.int32)
    assert_array_equal(call("floor_div", a, b), [3, -4, 0, -(2**31)])
    assert_array_equal(call("mod", a, b), [1, 1, 0, 0])
    assert_array_equal(call("rem", a, b), [1, -1, 0, 0])
    assert_array_equal(
        call("pow", np.array([2, -1, 0, 1], np.int32), np.array([-1, -3, -1, -5], np.int32)), [0, -1, 0, 1]
    )


def test_float_division_is_numpys() -> None:
    x, y = v(1, 0, INF, 5, -1, -1), v(0, 0, 2, 0, INF, INF)
    with np.errstate(all="ignore"):
        assert_array_equal(call("floor_div", x, y), np.floor_divide(x, y))
        assert_array_equal(call("mod", x, y), np.remainder(x, y))


def test_casts_saturate() -> None:
    from rlxlang.types import BOOL, I8, I64, U8

    x = v(300, -300, NAN, INF, -1.9, 1e30)
    assert_array_equal(call("cast", x, I8), [127, -128, 0, 127, -1, 127])
    assert_array_equal(call("cast", x, U8), [255, 0, 0, 255, 0, 255])
    assert_array_equal(call("cast", x, I64)[[3, 5]], [2**63 - 1, 2**63 - 1])
    assert_array_equal(call("cast", v(0, NAN, 2), BOOL), [False, True, True])
    assert_array_equal(call("cast", np.array([300], np.int32), I8), [44])
