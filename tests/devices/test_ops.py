"""Every op of the table on every device against the interpreter: values, derivatives, batches, special values, odd sizes.

Compiling costs more than running, so ops share programs: a failure lists every op that differs.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from rlxlang.interp import evaluate, read_sizes
from rlxlang.ir import OPS, Builder, Graph, GraphOutput, Node, Op, Sample, declare
from rlxlang.transforms import jvp, vjp, vmap
from rlxlang.types import BF16, DTYPES, F16, F32, I32, Dim, DType, TypeProblem
from rlxlang.types import evaluate as evaluate_dim
from tests.devices.running import DEVICES, Array, Part, Runner, cast_floats, graph_of, merge, mismatches
from tests.oracles import cases, float_inputs, float_outputs, lanes_of, random_array

# Relative and absolute. The interpreter computes in the same dtype, so both sides err: vector functions by 2 ulp, derivatives by a
# few operations more; halves are rounded once on either side, and one rounding may fall the other way.
TOLERANCES = {"F64": (1e-11, 1e-11), "F32": (1e-5, 1e-5), "F16": (2e-3, 2e-3), "BF16": (1.6e-2, 1.6e-2)}
FORMS = ("plain", "jvp", "vjp", "vmap")
LANES = 3
EVERY_SAMPLE = {("vjp", "F32", False), ("vmap", "F64", False)}


def _has_body(sample: Sample) -> bool:
    """Whether an attribute is a graph, which has dtypes of its own."""
    return any(isinstance(v, Graph) for a in sample.attrs.values() for v in (a if isinstance(a, tuple) else (a,)))


def _samples(first_only: bool) -> Iterator[tuple[str, Op, Sample]]:
    seen: set[str] = set()
    for name, op, sample in cases():
        if not (first_only and op.name in seen):
            yield name, op, sample
        seen.add(op.name)


def _derived(
    graph: Graph, arrays: dict[str, Array], form: str, dynamic: bool, rng: np.random.Generator, *, mixable: bool
) -> Graph | None:
    """The graph of a form, or None where the op has none; `arrays` gets what its new inputs need."""
    if form == "plain":
        return graph
    if form == "vmap":
        if "x0" not in arrays:
            return None
        arrays["x0"] = np.stack(lanes_of(arrays["x0"], LANES, rng, mixable=mixable))
        return vmap(graph, {"x0": 0}, None if dynamic else LANES)
    if not float_inputs(graph) or not float_outputs(graph):
        return None
    sizes = read_sizes(graph, arrays)
    found = (jvp if form == "jvp" else vjp)(graph, float_inputs(graph))
    for entry in found.inputs[len(graph.inputs) :]:
        shape = tuple(evaluate_dim(d, sizes) for d in entry.node.shape)
        arrays[entry.name] = random_array(entry.node.dtype, shape, rng).astype(entry.node.dtype.numpy)
    return found


def _parts(dtype: DType, form: str, dynamic: bool, first_only: bool, rng: np.random.Generator) -> Iterator[Part]:
    for name, op, sample in _samples(first_only):
        if (_has_body(sample) and dtype.name != "F64") or (form in ("jvp", "vjp") and not sample.smooth):
            continue
        args = cast_floats(sample.args, dtype)
        arrays = {f"x{k}": a for k, a in enumerate(args)}
        try:
            plain = graph_of(op, args, sample.attrs, name, dynamic)
        except TypeProblem:
            assert dtype in (F16, BF16), name  # half precision is not for every op
            continue
        graph = _derived(plain, arrays, form, dynamic, rng, mixable=sample.mixable)
        if graph is not None:
            yield Part(name, graph, arrays)


def _check(parts: list[Part], device: str, dtype: str) -> None:
    whole = merge(parts)
    want = evaluate(whole.graph, whole.arrays)
    got = Runner(whole.graph, device)(whole.arrays)
    differing = mismatches(whole.graph, got, want, *TOLERANCES[dtype])
    assert not differing, "\n".join(differing)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("dtype", ["F32", "F64"])
@pytest.mark.parametrize("form", FORMS)
def test_ops_on_cpu(form: str, dtype: str, dynamic: bool, rng: np.random.Generator) -> None:
    # Derivatives of all samples are many kernels: each op has one sample in every combination, and all in some.
    every_sample = (form == "plain" and not (dtype == "F64" and dynamic)) or (form, dtype, dynamic) in EVERY_SAMPLE
    _check(list(_parts(DTYPES[dtype], form, dynamic, not every_sample, rng)), "cpu", dtype)


@pytest.mark.skipif("opencl" not in DEVICES, reason="there is no OpenCL device")
@pytest.mark.parametrize(("form", "dtype", "dynamic"), [("plain", "F32", True), ("vjp", "F32", False)])
def test_ops_on_opencl(form: str, dtype: str, dynamic: bool, rng: np.random.Generator) -> None:
    _check(list(_parts(DTYPES[dtype], form, dynamic, True, rng)), "opencl", dtype)


@pytest.mark.parametrize("dtype", ["F16", "BF16"])
def test_ops_in_half_precision(dtype: str, rng: np.random.Generator) -> None:
    _check(list(_parts(DTYPES[dtype], "plain", False, True, rng)), "cpu", dtype)


# ------------------------------------------------------------------------------------------ special values


def _special(dtype: str) -> Array:
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return np.array([False, True])
    if kind.kind == "f":
        t = np.finfo(kind)
        sides = [
            0.0,
            1,
            0.5,
            1.5,
            2.5,
            3,
            1e-3,
            np.inf,
            t.max,
            t.tiny,
            t.tiny / 8,
            20,
            88,
            105,
            750,
            1e4,
            3e9,
            1e15,
            np.pi,
        ]
        return np.array([*sides, *(-v for v in sides), np.nan, t.eps, 16777217.0]).astype(kind)
    limits = np.iinfo(kind)
    inner = [0, 1, 2, 3, 7, 31, 100, limits.max, limits.max - 1, limits.min, limits.min + 1]
    return np.array(inner + ([-1, -2, -7, -100] if kind.kind == "i" else [])).astype(kind)


# Ops built of others, where a result next to 0 may have the other sign, or cancels: an absolute error instead.
BUILT = {
    "log_sigmoid": 1e-44, "gelu": 1e-15, "gelu_approx": 2e-7, "relu6": 0.0, "selu": 0.0, "tanhshrink": 1e-7, "mish": 1e-15,
    "lgamma": 4e-6, "digamma": 4e-6,
}  # fmt: skip
# One rounding instead of two turns an overflow that cancels into a number.
ONE_ROUNDING = ("fma",)


def _special_parts(dtypes: tuple[str, ...]) -> list[Part]:
    found, seen = [], set()
    for _, op, sample in cases():
        pointwise = {a.shape for a in sample.args} == {sample.args[0].shape} if sample.args else False
        if op.name in seen or op.name in ONE_ROUNDING or not pointwise or sample.args[0].ndim != 1 or sample.attrs:
            continue
        seen.add(op.name)
        for dtype in dtypes:
            changeable = ("float64",) if np.dtype(dtype).kind == "f" else ("float64", "int32")
            kinds = [dtype if a.dtype.name in changeable else a.dtype.name for a in sample.args]
            if dtype not in kinds:
                continue
            grid = np.meshgrid(*[_special(k)[:: 1 if len(kinds) < 3 else 3] for k in kinds], indexing="ij")
            args = [np.ascontiguousarray(g.reshape(-1)) for g in grid]
            try:
                graph = graph_of(op, args, sample.attrs, op.name)
            except TypeProblem:
                continue
            found.append(Part(f"{op.name} {dtype}", graph, {f"x{k}": a for k, a in enumerate(args)}))
    return found


def _differ(name: str, left: Array, right: Array) -> Array:
    if right.dtype.kind == "c":
        return _differ(name, left.real, right.real) | _differ(name, left.imag, right.imag)
    if right.dtype.kind != "f":
        return np.asarray(left != right)
    with np.errstate(all="ignore"):
        rtol = 1e-11 if right.dtype == np.float64 else 4e-6
        wrong = ~np.isclose(left, right, rtol=rtol, atol=BUILT.get(name, 0.0), equal_nan=True)
        if name not in BUILT:
            wrong |= (np.signbit(left) != np.signbit(right)) & ~np.isnan(right)
    return np.asarray(wrong)


def _special_mismatches(part: Part, left: Array, right: Array) -> list[str]:
    wrong = _differ(part.name.split()[0], left, right)
    operands = list(part.arrays.values())
    return [
        f"{part.name}({', '.join(repr(a[k]) for a in operands)}): {left[k]!r} instead of {right[k]!r}"
        for k in np.flatnonzero(wrong)[:3]
    ]


SPECIAL_DTYPES = {
    "cpu": ("float32", "float64", "int32", "int64", "uint8", "int8", "uint32"),
    "opencl": ("float32", "int32"),
}


@pytest.mark.parametrize("device", DEVICES)
def test_special_values(device: str) -> None:
    parts = _special_parts(SPECIAL_DTYPES[device])
    assert len({p.name.split()[0] for p in parts}) > 60
    whole = merge(parts)
    got = Runner(whole.graph, device)(whole.arrays)
    want = evaluate(whole.graph, whole.arrays)
    lines = []
    for part, left, right in zip(parts, got, want, strict=True):
        assert left.dtype == right.dtype
        assert left.shape == right.shape
        lines += _special_mismatches(part, left, right)
    assert not lines, "\n".join(lines)


# ------------------------------------------------------------------------------------------ sizes


def _rows_and_columns(dtype: DType, gathers: bool) -> Graph:
    """What reduces, moves and contracts, over axes of any size; with `gathers` also what takes entries, of which there must be some."""
    b = Builder()
    m, n = Dim.axis("?m"), Dim.axis("?n")
    x, y, v, k = (
        b.input("x", dtype, (m, n)),
        b.input("y", dtype, (n, m)),
        b.input("v", dtype, (n,)),
        b.input("k", I32, (m,)),
    )
    outputs: list[Node] = []
    for axis in (0, 1):
        outputs += [
            b.emit("softmax", x, axis=axis),
            b.emit("log_softmax", x, axis=axis),
            b.emit("flip", x, axes=(axis,)),
        ]
        outputs += [
            b.emit("cumsum", x, axis=axis, exclusive=e, reverse=r) for e in (False, True) for r in (False, True)
        ]
        outputs.append(b.emit("cummax", x, axis=axis, exclusive=False, reverse=False))
        if gathers:
            taken = b.emit("take", y, k, axis=axis)
            outputs += [taken, b.emit("scatter_add", y, k, taken, axis=axis)]
    for axes in ((0,), (1,), (0, 1)):
        outputs += [b.emit(name, x, axes=axes) for name in ("sum", "prod", "mean", "logsumexp")]
        outputs.append(b.emit("var", x, axes=axes, ddof=0))
        outputs.append(b.emit("any", b.emit("gt", x, b.full_like(x, 1.4)), axes=axes))
    outputs += [b.emit("layer_norm", x, v, v, eps=1e-3), b.emit("transpose", x, perm=(1, 0))]
    outputs.append(b.emit("concat", x, b.emit("transpose", y, perm=(1, 0)), axis=1))
    outputs.append(b.emit("pad", x, low=(1, 2), high=(3, 0), value=0.25))
    for contract in (((1,), (0,)), ((0,), (1,)), ((1, 0), (0, 1))):
        outputs.append(b.emit("dot_general", x, y, batch=((), ()), contract=contract))
    outputs.append(b.emit("dot_general", x, v, batch=((), ()), contract=((1,), (0,))))
    outputs.append(b.emit("dot_general", x, y, batch=((0,), (1,)), contract=((1,), (0,))))
    outputs.append(b.emit("reshape", x, shape=(m * n,)))
    named = [GraphOutput(f"{k} {node.op.name}", node) for k, node in enumerate(outputs)]
    return b.finish("rows", [declare(i) for i in (x, y, v, k)], named)


def _extrema() -> Graph:
    """Reductions that have no value over nothing."""
    b = Builder()
    x = b.input("x", F32, (Dim.axis("?m"), Dim.axis("?n")))
    outputs = [b.emit(name, x, axes=axes) for name in ("max", "min") for axes in ((0,), (1,), (0, 1))]
    outputs += [b.emit(name, x, axis=axis) for name in ("argmax", "argmin") for axis in (0, 1)]
    return b.finish("extrema", [declare(x)], [GraphOutput(f"y{k}", n) for k, n in enumerate(outputs)])


SIZES = [(1, 1), (2, 3), (17, 31), (33, 17), (1, 1000), (1000, 1), (3, 1000), (1000, 3), (64, 64), (2, 2), (100, 129)]
EMPTY = [(5, 0), (0, 5), (0, 0), (1, 0)]


def _sized(m: int, n: int, dtype: DType, rng: np.random.Generator) -> dict[str, Array]:
    x, y, v = (rng.uniform(-1.5, 1.5, s).astype(dtype.numpy) for s in ((m, n), (n, m), (n,)))
    most = max(min(m, n), 1)
    return {"x": x, "y": y, "v": v, "k": rng.integers(-most, most, m).astype(np.int32)}


@pytest.mark.parametrize(
    ("device", "dtype"), [("cpu", "F32"), ("cpu", "F64"), *((d, "F32") for d in DEVICES if d != "cpu")]
)
@pytest.mark.parametrize("some", [True, False], ids=["some", "none"])
def test_every_size_on_one_executable(some: bool, device: str, dtype: str, rng: np.random.Generator) -> None:
    runner = Runner(_rows_and_columns(DTYPES[dtype], gathers=some), device)
    rtol, atol = TOLERANCES[dtype]
    lines = []
    for m, n in SIZES if some else [*EMPTY, (4, 3), *EMPTY]:
        arrays = _sized(m, n, DTYPES[dtype], rng)
        differing = mismatches(runner.graph, runner(arrays), evaluate(runner.graph, arrays), 10 * rtol, 10 * atol)
        lines += [f"[{m}, {n}] {line}" for line in differing]
    assert not lines, "\n".join(lines)


@pytest.mark.parametrize("device", DEVICES)
def test_extrema_of_every_size(device: str, rng: np.random.Generator) -> None:
    runner = Runner(_extrema(), device)
    for m, n in SIZES:
        x = rng.integers(-50, 50, (m, n)).astype(np.float32)  # with ties
        x[rng.random((m, n)) < 0.01] = np.nan
        arrays = {"x": x}
        differing = mismatches(runner.graph, runner(arrays), evaluate(runner.graph, arrays), 0, 0)
        assert not differing, f"sizes {m}, {n}\n" + "\n".join(differing)


def test_the_table_is_covered() -> None:
    assert {op.name for _, op, _ in _samples(True)} >= set(OPS) - {"input", "item"}
