"""What users call gives what NumPy gives, with the language's dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rlxlang.interp import evaluate
from rlxlang.ir import OPS, Builder, GraphOutput, RangeValue, declare
from rlxlang.types import BOOL, F16, F32, F64, I8, I32, I64, U8, U32, Dim, TensorType, from_numpy
from tests.ops.calls import build, call

A = np.arange(24.0).reshape(2, 3, 4)
M = np.arange(6.0).reshape(2, 3)


SHAPES: list[tuple[str, tuple[Any, ...], dict[str, Any], Any]] = [
    ("reshape", (A, (4, -1)), {}, A.reshape(4, 6)),
    ("reshape", (A, 6, 4), {}, A.reshape(6, 4)),
    ("reshape", (A, -1), {}, A.reshape(-1)),
    ("transpose", (A, (2, 0, 1)), {}, A.transpose(2, 0, 1)),
    ("transpose", (A, 0, -1, 1), {}, A.transpose(0, 2, 1)),
    ("transpose", (A,), {}, A.T),
    ("t", (A,), {}, A.swapaxes(1, 2)),
    ("flatten", (A,), {}, A.reshape(-1)),
    ("flatten", (A,), {"start": 1}, A.reshape(2, 12)),
    ("unsqueeze", (M, -1), {}, M[:, :, None]),
    ("unsqueeze", (M, 0), {}, M[None]),
    ("squeeze", (M[None], 0), {}, M),
    ("squeeze_all", (M[None, :, :, None],), {}, M),
    ("broadcast_to", (M, (4, 2, 3)), {}, np.broadcast_to(M, (4, 2, 3))),
    ("broadcast_to", (M, 4, -1, -1), {}, np.broadcast_to(M, (4, 2, 3))),
    ("narrow", (A, 1, 1, 2), {}, A[:, 1:3]),
    ("slice", (A, RangeValue(0, 1), RangeValue(None, -1)), {}, A[0:1, :-1]),
    ("slice", (M, RangeValue(None, None), RangeValue(None, None, -1)), {}, M[:, ::-1]),
    ("slice", (np.arange(9.0), RangeValue(7, 2, -2)), {}, np.arange(9.0)[7:2:-2]),
    ("slice", (np.arange(9.0), RangeValue(1, 6, 2, inclusive=True)), {}, np.arange(9.0)[1:7:2]),
    ("slice", (np.arange(9.0), RangeValue(5, 100)), {}, np.arange(9.0)[5:]),
    ("slice", (np.arange(9.0), RangeValue(5, 2)), {}, np.zeros(0)),
    ("concat", ((M, M), 1), {}, np.concatenate([M, M], 1)),
    ("cat", ((M, M), -2), {}, np.concatenate([M, M], 0)),
    ("stack", ((M, M), -1), {}, np.stack([M, M], -1)),
    ("tile", (M, (2, 1, 2)), {}, np.tile(M, (2, 1, 2))),
    ("tile", (M, 2), {}, np.tile(M, 2)),
    ("repeat_interleave", (M, 2, 1), {}, np.repeat(M, 2, 1)),
    ("pad", (M, 1, 2, 1), {"value": 7}, np.pad(M, ((0, 0), (2, 1)), constant_values=7)),
    ("pad", (M, ((1, 0), (0, 2))), {}, np.pad(M, ((1, 0), (0, 2)))),
    ("flip", (M,), {}, M[::-1, ::-1]),
    ("flip", (M, -1), {}, M[:, ::-1]),
    ("roll", (M, 1, -1), {}, np.roll(M, -1, 1)),
    ("roll", (M, 1, 7), {}, np.roll(M, 7, 1)),
    ("diff", (M,), {}, np.diff(M)),
    ("moveaxis", (A, 0, -1), {}, np.moveaxis(A, 0, -1)),
    ("swapaxes", (A, 0, 2), {}, A.swapaxes(0, 2)),
    ("tril", (A[0],), {}, np.tril(A[0])),
    ("triu", (A, 1), {}, np.triu(A, 1)),
    ("diag", (A[0],), {}, np.diag(A[0])),
    ("diag", (np.arange(3.0),), {}, np.diag(np.arange(3.0))),
    ("trace", (A,), {}, np.trace(A, axis1=1, axis2=2)),
    ("index_select", (A, 1, np.array([2, 0])), {}, A[:, [2, 0]]),
    ("gather", (A, np.array([[1, 0], [-1, 9]]), 2), {}, A[:, :, [[1, 0], [3, 3]]]),
    ("take", (A, (1, 0)), {"axis": 0}, A[[1, 0]]),
    ("embed", (M, np.array([1.0, 0.0])), {}, M[[1, 0]]),
    ("take_along_axis", (M, np.array([[2], [0]])), {}, np.take_along_axis(M, np.array([[2], [0]]), 1)),
]


@pytest.mark.parametrize(
    ("name", "arguments", "options", "want"), SHAPES, ids=[f"{c[0]}-{k}" for k, c in enumerate(SHAPES)]
)
def test_rearranging(name: str, arguments: Any, options: Any, want: Any) -> None:
    assert_array_equal(call(name, *arguments, **options), want)


def test_lists_of_parts() -> None:
    for found, want in (
        (call("split", M, 1, 2), np.array_split(M, 2, 1)),
        (call("split", M, 1, (1, 2)), np.split(M, [1], 1)),
        (call("chunk", np.arange(7.0), 3), np.array_split(np.arange(7.0), 3)),
        (call("meshgrid", np.arange(2.0), np.arange(3.0)), np.meshgrid(np.arange(2.0), np.arange(3.0), indexing="ij")),
    ):
        for part, expected in zip(found, want, strict=True):
            assert_array_equal(part, expected)


def test_select_is_where_as_a_function_and_an_index_as_a_method() -> None:
    assert_array_equal(call("select", M > 2, M, 0.0), np.where(M > 2, M, 0))
    assert_array_equal(call("select", M, 1, -1, method=True), M[:, -1])
    assert_array_equal(call("where_", M > 2, 1, -1), np.where(M > 2, 1, -1))
    assert_array_equal(call("masked_fill", M, M > 2, -np.inf), np.where(M > 2, -np.inf, M))


def test_making_tensors() -> None:
    assert_array_equal(call("arange", 5), np.arange(5))
    assert call("arange", 5).dtype == np.int32
    assert_allclose(call("arange", 1, 2, 0.25), np.arange(1, 2, 0.25))
    assert call("arange", 1, 2, 0.25).dtype == np.float32
    assert_array_equal(call("eye", 2, 3), np.eye(2, 3))
    assert_array_equal(call("full", (2,), 3), [3, 3])
    assert call("full", (2,), 3).dtype == np.int32
    assert call("zeros", (2,), I32).dtype == np.int32
    assert_array_equal(call("ones_like", M), np.ones((2, 3)))
    assert_allclose(call("linspace", 0, 1, 5), np.linspace(0, 1, 5))
    assert_array_equal(call("one_hot", np.array([1, 0]), 3), np.eye(3)[[1, 0]])


REDUCED: list[tuple[str, dict[str, Any], Any]] = [
    ("sum", {"axes": (0, -1)}, A.sum((0, 2))),
    ("sum", {"axes": 1, "keep_dim": True}, A.sum(1, keepdims=True)),
    ("sum", {}, A.sum()),
    ("mean", {"axes": -1}, A.mean(-1)),
    ("max", {"axes": 1}, A.max(1)),
    ("min", {}, A.min()),
    ("prod", {"axes": 2}, A.prod(2)),
    ("var", {"axes": 2, "ddof": 1}, A.var(2, ddof=1)),
    ("std", {"axes": (1, 2), "keep_dim": True}, A.std((1, 2), keepdims=True)),
    ("norm", {"axes": 2}, np.linalg.norm(A, axis=2)),
    ("norm", {"axes": 2, "p": 1}, np.abs(A).sum(2)),
    ("any", {"axes": 0}, A.any(0)),
    ("all", {"axes": 0}, A.all(0)),
    ("count_nonzero", {"axes": 2}, np.count_nonzero(A, 2)),
    ("argmax", {"axis": 1}, A.argmax(1)),
    ("argmin", {}, A.argmin()),
    ("cumsum", {"axis": 1}, A.cumsum(1)),
    ("cumprod", {"axis": -1}, A.cumprod(-1)),
    ("cummax", {"axis": 0}, np.maximum.accumulate(A, 0)),
    ("mean_all", {}, A.mean()),
    ("sum_all", {}, A.sum()),
]


@pytest.mark.parametrize(("name", "options", "want"), REDUCED, ids=[f"{c[0]}-{k}" for k, c in enumerate(REDUCED)])
def test_reducing(name: str, options: Any, want: Any) -> None:
    assert_allclose(call(name, A, **options), want)


def test_products() -> None:
    rng = np.random.default_rng(0)
    x, y, z = rng.normal(size=(2, 3)), rng.normal(size=(3, 4)), rng.normal(size=(5, 2, 3))
    vector, bias = rng.normal(size=3), rng.normal(size=4)
    assert_allclose(call("matmul", x, y), x @ y)
    assert_allclose(call("mm", z, y), z @ y)
    assert_allclose(call("matmul", vector, y), vector @ y)
    assert_allclose(call("matmul", x, vector), x @ vector)
    assert_allclose(call("matmul", vector, vector), vector @ vector)
    assert_allclose(call("matmul", z[:, :, :], z.transpose(0, 2, 1)), z @ z.transpose(0, 2, 1))
    assert_allclose(call("matmul", x[None], z.transpose(0, 2, 1)), x @ z.transpose(0, 2, 1))
    assert_allclose(call("matmul", vector, z.transpose(0, 2, 1)), vector @ z.transpose(0, 2, 1))
    assert_allclose(call("matmul_t", x, y.T), x @ y)
    assert_allclose(call("linear", z, y.T, bias), z @ y + bias)
    assert_allclose(call("linear", vector, y.T), vector @ y)
    assert_allclose(call("linear_act", x, y.T, bias, "relu"), np.maximum(x @ y + bias, 0))
    assert_allclose(call("dot", z, y), np.dot(z, y))
    assert_allclose(call("dot", z, z.transpose(0, 2, 1)), np.dot(z, z.transpose(0, 2, 1)))
    assert_allclose(call("outer", vector, bias), np.outer(vector, bias))
    assert_allclose(call("tensordot", z, y, 1), np.tensordot(z, y, 1))
    assert_allclose(call("tensordot", z, x, ((1, 2), (0, 1))), np.tensordot(z, x, ([1, 2], [0, 1])))
    assert_allclose(call("matrix_power", A[0, :, :3], 5), np.linalg.matrix_power(A[0, :, :3], 5))


@pytest.mark.parametrize(
    "spec",
    [
        "ij,jk->ik", "ij,jk", "bij,bjk->bik", "ij->ji", "ii->i", "ii", "ij->", "i,j->ij", "bij,kj->bki", "...ij,...jk->...ik",
        "ij,ij->ij", "ij,jk,kl->il", "bij,b->j", "i...->...", "ijj->i", "bii->b",
    ],
)  # fmt: skip
def test_einsum(spec: str) -> None:
    rng = np.random.default_rng(0)
    sizes = {"i": 2, "j": 3, "k": 4, "l": 5, "b": 3}
    terms = spec.split("->")[0].split(",")
    operands = []
    for term in terms:
        lead = (3, 2) if "..." in term and len(term) == 5 else (3,) if "..." in term else ()
        letters = term.replace("...", "")
        own = tuple(sizes[c] for c in letters)
        operands.append(rng.normal(size=own + lead if term.endswith("...") else lead + own))
    assert_allclose(call("einsum", spec, *operands), np.einsum(spec, *operands))


def test_normalisation_and_losses() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(3, 4)), rng.normal(size=(3, 4))
    gamma, beta = rng.normal(size=4), rng.normal(size=4)
    centre = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    assert_allclose(call("layer_norm", x, gamma, beta), centre * gamma + beta)
    rms = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)
    assert_allclose(call("rms_norm", x, gamma, eps=1e-6), rms * gamma)
    assert_allclose(call("l2_normalize", x), x / np.linalg.norm(x, axis=-1, keepdims=True))
    assert_allclose(call("mse", x, y), ((x - y) ** 2).mean())
    assert_allclose(call("mae", x, y, "none"), np.abs(x - y))
    assert_allclose(call("huber", np.array([0.5, 3.0]), np.zeros(2), reduction="none"), [0.125, 2.5])
    q = np.array([0.0, 0.25, 0.75])
    divergence = np.array([0, 0.25 * np.log(0.25), 0.75 * np.log(0.75)]) - q * np.log(0.5)
    assert_allclose(call("kl_div", np.full(3, np.log(0.5)), q, "sum"), divergence.sum())
    cosine = (x * y).sum(-1) / np.linalg.norm(x, axis=-1) / np.linalg.norm(y, axis=-1)
    assert_allclose(call("cosine_similarity", x, y), cosine)
    assert_allclose(call("nll", x, np.array([1, 0, 3])), -x[[0, 1, 2], [1, 0, 3]])
    p = 1 / (1 + np.exp(-x))
    target = (y > 0).astype(float)
    want = -(target * np.log(p) + (1 - target) * np.log(1 - p))
    assert_allclose(call("bce_with_logits", x, target, "none"), want)
    assert_allclose(call("bce", p, target, "none"), want)


def test_rotary_embedding() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 5, 12))
    cos, sin = call("rope_tables", 5, 6)
    angle = np.arange(5)[:, None] * 10000.0 ** (-np.arange(0, 6, 2) / 6)
    assert_allclose(cos, np.cos(angle), rtol=1e-5, atol=1e-6)
    assert_allclose(sin, np.sin(angle), rtol=1e-5, atol=1e-6)
    wide_cos, wide_sin = np.cos(angle), np.sin(angle)

    heads = x.reshape(2, 5, 2, 6)
    turn = np.exp(1j * angle)[None, :, None, :]
    halves = (heads[..., :3] + 1j * heads[..., 3:]) * turn
    want = np.concatenate([halves.real, halves.imag], -1).reshape(x.shape)
    assert_allclose(call("rope", x, wide_cos, wide_sin, 6), want)
    doubled = [np.concatenate([t, t], -1) for t in (wide_cos, wide_sin)]
    assert_allclose(call("rope", x, *doubled, 6), want)
    ranked = call("rope", heads.transpose(0, 2, 1, 3), wide_cos, wide_sin)
    assert_allclose(ranked.transpose(0, 2, 1, 3).reshape(x.shape), want)

    pairs = (heads[..., ::2] + 1j * heads[..., 1::2]) * turn
    want = np.stack([pairs.real, pairs.imag], -1).reshape(x.shape)
    assert_allclose(call("rope", x, wide_cos, wide_sin, 6, interleaved=True), want)


def test_inverse_hyperbolics_far_and_near() -> None:
    x = np.array([1e-9, -1e-9, 0.5, 3.0, 1e200, -1e200, np.inf])
    assert_allclose(_composed("asinh", x), np.arcsinh(x), rtol=1e-14)
    x = np.array([1.0, 1 + 1e-9, 2.0, 1e200, np.inf])
    assert_allclose(_composed("acosh", x), np.arccosh(x), rtol=1e-14)
    x = np.array([0.0, -8.0, 27.0, 1e-300, np.inf, -np.inf])
    assert_allclose(_composed("cbrt", x), np.cbrt(x), rtol=1e-14)


def _composed(name: str, x: np.ndarray) -> np.ndarray:
    """The value through the decomposition rather than the reference."""
    b = Builder()
    node = b.input("x", F64, x.shape)
    result = OPS[name].decompose(b, node)
    return evaluate(b.finish(name, [declare(node)], [GraphOutput("y", result)]), {"x": x})[0]


# ------------------------------------------------------------------------------------------ dtypes


def _array(dtype: Any) -> np.ndarray:
    return np.array([1, 0, 1]).astype(dtype.numpy)


@pytest.mark.parametrize(
    ("name", "arguments", "want"),
    [
        ("add", (F16, 1.0), F16), ("add", (I32, 1.5), F32), ("add", (I32, F16), F16), ("add", (BOOL, 1), I32),
        ("add", (BOOL, BOOL), BOOL), ("mul", (BOOL, True), BOOL), ("div", (I32, I32), F32), ("div", (I32, 2), F32),
        ("floor_div", (BOOL, BOOL), I32), ("pow", (BOOL, 2), I32), ("mod", (I8, U8), from_numpy(np.dtype("int16"))),
        ("maximum", (I8, 3), I8), ("exp", (I32,), F32), ("exp", (BOOL,), F32), ("relu", (I8,), I8), ("abs", (I8,), I8),
        ("round", (I32,), I32), ("sum", (I8,), I32), ("sum", (BOOL,), I32), ("sum", (U8,), U32), ("sum", (I64,), I64),
        ("sum", (F16,), F16), ("cumsum", (I8,), I32), ("mean", (I32,), F32), ("mean", (F64,), F64), ("softmax", (I32,), F32),
        ("max", (I8,), I8), ("argmax", (F32,), I32), ("count_nonzero", (F32,), I32), ("eq", (F32, I32), BOOL),
        ("matmul", (I8, I8), I32), ("matmul", (F16, F16), F16), ("clamp", (I32, 0, 1), I32), ("where", (BOOL, I32, 1.5), F32),
        ("square", (I32,), I32), ("isnan", (I32,), BOOL), ("logical_and", (F32, I32), BOOL), ("bit_and", (I32, 3), I32),
        ("gelu", (F16,), F16), ("std", (BOOL,), F32), ("atan2", (I32, I32), F32), ("neg", (I8,), I8), ("lerp", (F16, 1.0, 0.5), F16),
    ],
)  # fmt: skip
def test_result_dtypes(name: str, arguments: Any, want: Any) -> None:
    graph, _ = build(name, *(_array(a) if not isinstance(a, (int, float)) else a for a in arguments))
    assert graph.outputs[0].node.dtype == want


def test_bool_arithmetic() -> None:
    x, y = np.array([True, True, False]), np.array([True, False, False])
    assert_array_equal(call("add", x, y), x | y)
    assert_array_equal(call("mul", x, y), x & y)
    assert_array_equal(call("bit_xor", x, y), x ^ y)
    assert_array_equal(call("bit_not", x), ~x)


# ------------------------------------------------------------------------------------------ dynamic sizes


def _dynamic(*dims: Any) -> TensorType:
    return TensorType(F32, tuple(Dim.axis(d) if isinstance(d, str) else d for d in dims))


def test_dynamic_axes_never_stretch_but_guard() -> None:
    graph, _ = build("add", _dynamic("?n", 3), _dynamic("?m", 3))
    assert [str(g.guard) for g in graph.guards] == ["?n == ?m"]
    graph, _ = build("add", _dynamic("?n", 3), _dynamic(1, 3))
    assert not graph.guards
    assert str(graph.outputs[0].node.type) == "[F32; ?n, 3]"


def test_sizes_stay_symbolic() -> None:
    text = {
        "reshape": build("reshape", _dynamic("?n", 4), (-1, 2))[0],
        "concat": build("concat", (_dynamic("?n", 2), _dynamic("?n", 2)))[0],
        "flatten": build("flatten", _dynamic("?n", 4, 2))[0],
        "slice": build("slice", _dynamic("?n"), RangeValue(None, None, 2))[0],
    }
    shapes = {name: str(graph.outputs[0].node.type) for name, graph in text.items()}
    assert shapes == {
        "reshape": "[F32; 2*?n, 2]",
        "concat": "[F32; 2*?n, 2]",
        "flatten": "[F32; 8*?n]",
        "slice": "[F32; ((?n + 1) div 2)]",
    }
    divided, _ = build("reshape", _dynamic("?n"), (-1, 3))
    assert next(str(g.guard) for g in divided.guards) == "3 divides ?n"


def test_max_of_a_dynamic_axis_needs_an_entry() -> None:
    graph, _ = build("max", _dynamic("?n"))
    assert [str(g.guard) for g in graph.guards] == ["1 <= ?n"]
