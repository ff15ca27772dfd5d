"""Complex numbers: functions, derivatives and moves of C64 against NumPy in double precision, on every device."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlxlang as rlx
from rlxlang.checkpoint import load_weights, save_weights
from rlxlang.interp import evaluate
from rlxlang.ir import OPS, Graph, Sample
from rlxlang.ir.parser import parse_graph
from rlxlang.ir.printer import print_graph
from rlxlang.transforms import jvp, vjp
from tests.devices.running import DEVICES, Part, Runner, merge, mismatches
from tests.oracles import arrays_of, graph_of, random_array

Array = np.ndarray[Any, Any]
HOLOMORPHIC = (
    "add", "sub", "neg", "mul", "mul_safe", "div", "recip", "pow", "exp", "log", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh",
)  # fmt: skip
MOVES = (
    "sum", "cumsum", "mean", "dot_general", "select", "concat", "reshape", "transpose", "broadcast_to", "slice", "flip", "pad",
    "windows", "fold", "take", "take_along_axis", "scatter_add", "scatter_set",
)  # fmt: skip
OWN = ("complex", "real", "imag", "conj", "fft", "rfft", "irfft")


def _complex(rng: np.random.Generator, *shape: int) -> Array:
    return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(np.complex64)


def _cases() -> list[Any]:
    """The samples of ops that take C64, float operands turned into complex ones with a real part that is not small."""
    rng = np.random.default_rng(7)
    found = []
    for name in (*HOLOMORPHIC, *MOVES, *OWN):
        if name == "mean":
            continue  # C64 has its decomposition only
        for k, sample in enumerate(OPS[name].samples(rng)):
            args = tuple(
                (a + 1j * rng.uniform(-0.8, 0.8, a.shape)).astype(np.complex64) if a.dtype == np.float64 else a
                for a in sample.args
            )
            found.append(pytest.param(name, Sample(args, sample.attrs), id=f"{name}-{k}"))
    return found


CASES = _cases()


def _wide(array: Array) -> Array:
    return array.astype({"c": np.complex128, "f": np.float64}.get(array.dtype.kind, array.dtype))


def _pair(left: Array, right: Array) -> float:
    """Re Σ left·right: how a cotangent acts on a tangent."""
    return float(np.sum(_wide(left) * _wide(right)).real)


def _differentiable(graph: Graph) -> list[str]:
    return [e.name for e in graph.inputs if e.node.dtype.is_differentiable]


@pytest.mark.parametrize(("name", "sample"), CASES)
def test_tangents_are_differences_in_double_precision(name: str, sample: Sample, rng: np.random.Generator) -> None:
    op, graph, arrays = OPS[name], graph_of(OPS[name], sample), arrays_of(sample)
    names = _differentiable(graph)
    ways = {
        n: random_array(graph.input(n).node.dtype, arrays[n].shape, rng).astype(arrays[n].dtype)  # type: ignore[union-attr]
        for n in names
    }
    found = evaluate(jvp(graph, names), {**arrays, **{f"tangent_{n}": w for n, w in ways.items()}})
    is_exact = name in (*MOVES, *OWN)  # of degree one in each operand: differences are derivatives at any step
    step = 1.0 if is_exact else 1e-5

    def at(t: float) -> Array:
        wide = arrays if is_exact else {n: _wide(a) for n, a in arrays.items()}
        return np.asarray(op.reference(*[a + t * ways[n] if n in ways else a for n, a in wide.items()], **sample.attrs))

    with np.errstate(all="ignore"):
        want = (at(step) - at(-step)) / (2 * step)
    np.testing.assert_allclose(found[1], want, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize(("name", "sample"), CASES)
def test_cotangents_are_the_transposes_of_tangents(name: str, sample: Sample, rng: np.random.Generator) -> None:
    graph, arrays = graph_of(OPS[name], sample), arrays_of(sample)
    _check_transposed(graph, arrays, rng)
    # Once more for the pull-back itself: second derivatives.
    names = _differentiable(graph)
    pulled = vjp(graph, names)
    _check_transposed(pulled, {**arrays, **_given(pulled, arrays, rng)}, rng)


def _given(graph: Graph, arrays: dict[str, Array], rng: np.random.Generator) -> dict[str, Array]:
    return {
        e.name: random_array(e.node.dtype, e.node.shape, rng).astype(e.node.dtype.numpy)
        for e in graph.inputs
        if e.name not in arrays
    }


def _check_transposed(graph: Graph, arrays: dict[str, Array], rng: np.random.Generator) -> None:
    names = _differentiable(graph)
    forward, reverse = jvp(graph, names), vjp(graph, names)
    ways, weights = _given(forward, arrays, rng), _given(reverse, arrays, rng)
    count = len(graph.outputs)
    pushed = evaluate(forward, {**arrays, **ways})[count:]
    pulled = evaluate(reverse, {**arrays, **weights})[count:]
    left = [_pair(w, t) for w, t in zip(weights.values(), pushed, strict=True)]
    right = [_pair(c, w) for c, w in zip(pulled, ways.values(), strict=True)]
    scale = 1 + sum(float(np.sum(np.abs(_wide(w) * _wide(t)))) for w, t in zip(weights.values(), pushed, strict=True))
    assert abs(sum(left) - sum(right)) < 2e-5 * scale


# Compiling for OpenCL takes long: what is worth a look there.
ON_OPENCL = ("mul", "div", "pow", "sqrt", "tanh", "dot_general", "sum", "concat", "pad", "take", "scatter_add")


@pytest.mark.parametrize(
    ("device", "form"), [("cpu", "plain"), ("cpu", "vjp"), *((d, "plain") for d in DEVICES if d != "cpu")]
)
def test_every_device_agrees_with_the_interpreter(device: str, form: str, rng: np.random.Generator) -> None:
    parts, seen = [], set()
    for case in CASES:
        name, sample = case.values
        # The samples of `OWN` are among those of tests/devices.
        if name in OWN or name in seen or (device != "cpu" and name not in ON_OPENCL):
            continue
        seen.add(name)
        graph, arrays = graph_of(OPS[name], sample), arrays_of(sample)
        if form == "vjp":
            graph = vjp(graph, _differentiable(graph))
        parts.append(Part(str(case.id), graph, {**arrays, **_given(graph, arrays, rng)}))
    whole = merge(parts)
    want = evaluate(whole.graph, whole.arrays)
    differing = mismatches(whole.graph, Runner(whole.graph, device)(whole.arrays), want, 2e-5, 2e-5)
    assert not differing, "\n".join(differing)


# ------------------------------------------------------------------------------------------ special values

SPECIAL = np.array([0.0, -0.0, 1.0, -1.5, 3e-39, 2e19, -3e38, np.inf], np.float32)
# What NumPy gives there; powers and tangents of huge numbers are left out, as NumPy's own differ from platform to platform.
FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "abs": np.abs, "angle": np.angle, "sqrt": np.sqrt, "recip": lambda z: 1 / z, "exp": np.exp, "log": np.log, "conj": np.conj,
}  # fmt: skip


EXTREMES = f"""
input z: [C64; ?n]; input x: [C64; 4]; input y: [C64; 4];
{" ".join(f"out {name} = {name}(z);" for name in FUNCTIONS)}
out quotient = x / y;
out by_zero = z / 0.0;
out undefined = isnan(by_zero);
out finite = isfinite(z);
"""


@pytest.mark.filterwarnings("ignore:.*W0908")  # a division by a constant zero is what is looked at
@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_extreme_values(device: str) -> None:
    re, im = (g.reshape(-1) for g in np.meshgrid(SPECIAL, SPECIAL))
    z = np.empty(re.size, np.complex64)
    z.real, z.imag = re, im
    x = np.array([1e30 + 2e30j, 1e-30 + 1e-30j, 3 - 4j, 1 + 1j], np.complex64)
    y = np.array([2e30 - 1e30j, 3e-30 + 1e-30j, 1e-3j, -2], np.complex64)
    func = rlx.loads(EXTREMES)
    found = dict(zip(func.output_names(), func.run_on(device, z=z, x=x, y=y), strict=True))
    for name, function in FUNCTIONS.items():
        with np.errstate(all="ignore"):
            want = function(z.astype(np.complex128)).astype(found[name].dtype)
        sure = np.isfinite(want) & np.isfinite(z)
        if name == "exp":
            sure &= (np.abs(z.real) < 80) & (np.abs(z.imag) < 1e9)  # beyond, the angle decides
        # Quotients below the normal range may vanish, as in NumPy's own C64.
        least = 1e-37 if name == "recip" else 1e-44
        np.testing.assert_allclose(found[name][sure], want[sure], rtol=3e-6, atol=least, err_msg=name)
    np.testing.assert_allclose(found["quotient"], x.astype(np.complex128) / y.astype(np.complex128), rtol=1e-6)
    assert not np.isfinite(found["by_zero"]).any()
    assert found["undefined"][z == 0].all()
    np.testing.assert_array_equal(found["finite"], np.isfinite(z))


# ------------------------------------------------------------------------------------------ the language


SOURCE = """
input z: [C64; ?b, 3];
input x: [?b, 3];
const k = [1.0, 2.0, 3.0] : C64;
let y = z * 2.0 + x - k;
out y;
out product = z @ reshape(z[0..3], [3, 3]);
out parts = complex(real(z), -imag(z));
out equal = z == conj(parts);
out differs = z != z;
out average = mean(z, 0);
out chosen = where(x > 0.0, z, 1.0);
out taken = take(z, [2, 0], axis: 1);
out whole = cast(z, Bool);
out power = z ** 3 + z ** 0.5 + 2.0 ** z;
out same = z;
out padded = pad(z, 1, 1, 0, 2.5);
out turned = angle(x) + angle(z);
out flat = imag(x) + real(x);
"""


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_programs_compute_with_complex_numbers(device: str, rng: np.random.Generator) -> None:
    z, x = _complex(rng, 4, 3), rng.normal(size=(4, 3)).astype(np.float32)
    func = rlx.loads(SOURCE)
    found = dict(zip(func.output_names(), func.run_on(device, z=z, x=x), strict=True))
    w = z.astype(np.complex128)
    want: dict[str, Array] = {
        "y": w * 2 + x - np.array([1, 2, 3]), "product": w @ w[:3], "parts": w.conj(), "equal": np.ones((4, 3), bool),
        "differs": np.zeros((4, 3), bool), "average": w.mean(0), "chosen": np.where(x > 0, w, 1), "taken": w[:, [2, 0]],
        "whole": np.ones((4, 3), bool), "power": w**3 + w**0.5 + 2**w, "same": w,
        "padded": np.pad(w, ((0, 0), (1, 0)), constant_values=2.5),
        "turned": np.angle(x) + np.angle(w), "flat": x.astype(np.float64),
    }  # fmt: skip
    for name, value in want.items():
        assert found[name].dtype == (np.complex64 if value.dtype.kind == "c" else found[name].dtype)
        np.testing.assert_allclose(found[name], value, rtol=2e-5, atol=2e-5, err_msg=name)


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_constants_are_computed_when_they_are_known(device: str) -> None:
    func = rlx.loads("""
        const k = [1.0, 2.0, 3.0, 4.0] : C64;
        input z: [C64; ?n];
        out zero = zeros_like(z);
        out unit = complex(0.0, 1.0);
        out known = k * unit;
        out spectrum = fft(k);
        out half = rfft(real(k));
        out back = irfft(half);
        out same = ones_like(z) * 2.0;
        out plain = k;
    """)
    found = dict(zip(func.output_names(), func.run_on(device, z=np.zeros(2, np.complex64)), strict=True))
    k = np.arange(1, 5)
    want = {
        "zero": np.zeros(2), "unit": 1j, "known": k * 1j, "spectrum": np.fft.fft(k), "half": np.fft.rfft(k), "back": k, "same": [2, 2],
        "plain": k,
    }  # fmt: skip
    for name, value in want.items():
        assert found[name].dtype == (np.float32 if name == "back" else np.complex64)
        np.testing.assert_allclose(found[name], value, rtol=1e-6, atol=1e-6, err_msg=name)


LOOPS = {
    "scan": "scan y = z[0], g = z[1] over s in z { let y = y * s + g; let g = g * g; emit y * s as ys; } {end} out ys; out m = n;",
    "loop": "loop y = z[0], i = 0 while i < n max 5 { let y = y * y + z[1]; let i = i + 1; } {end}",
    "if": "if n > 2 { let y = z * z; } else { let y = conj(z); } {end}",
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops_and_branches_carry_complex_numbers(name: str, rng: np.random.Generator) -> None:
    source = f"input z: [C64; 4, 3]; input n: [I32;]; {LOOPS[name]}"
    z = (_complex(rng, 4, 3) * 0.4).astype(np.complex64)
    func = rlx.loads(source.replace("{end}", "out y;"))
    loss = rlx.loads(source.replace("{end}", "out l = sum(square(abs(y)));"))
    gradient = loss.grad(["z"])
    for n in (1, 3):
        want, slope = func.run_on("reference", z=z, n=n), gradient.run_on("reference", z=z, n=n)[0]
        for device in DEVICES if name == "scan" else ("cpu",):
            for p, q in zip(func.run_on(device, z=z, n=n), want, strict=True):
                np.testing.assert_allclose(p, q, rtol=1e-5, atol=1e-6)
            if device == "cpu":
                np.testing.assert_allclose(gradient.run_on(device, z=z, n=n)[0], slope, rtol=1e-4, atol=1e-5)
        way = _complex(rng, 4, 3)

        def difference(step: float, z: Array = z, way: Array = way, n: int = n) -> float:
            up, down = (loss.run_on("reference", z=(z + t * way).astype(np.complex64), n=n)[0] for t in (step, -step))
            return (float(up) - float(down)) / (2 * step)

        # Richardson: three steps of a squared recurrence are of high degree, which one difference does not measure.
        measured = (4 * difference(5e-3) - difference(1e-2)) / 3
        assert _pair(slope, way) == pytest.approx(measured, rel=2e-2, abs=5e-3)


def test_the_gradient_of_a_real_loss_is_the_conjugate_of_steepest_ascent() -> None:
    z = np.array([1 + 2j, -0.5j, 0], np.complex64)
    loss = rlx.loads("input z: [C64; 3]; out l = sum(square(abs(z)));")
    found = loss.grad(["z"]).run(z=z)[0]
    np.testing.assert_allclose(found, 2 * z.conj(), rtol=1e-6)
    better = loss.run(z=(z - 0.1 * found.conj()).astype(np.complex64))[0]
    assert better < loss.run(z=z)[0]


def test_the_derivative_of_a_holomorphic_function_is_its_complex_derivative() -> None:
    z = np.array([1 + 2j, -0.5j], np.complex64)
    square = rlx.loads("input z: [C64; 2]; out y = z * z;")
    for jacobian in (square.jacfwd(["z"], holomorphic=True), square.jacrev(["z"], holomorphic=True)):
        np.testing.assert_allclose(jacobian.run(z=z)[0], np.diag(2 * z), rtol=1e-6)


def test_gradients_stay_finite_where_a_zero_cotangent_meets_a_pole() -> None:
    func = rlx.loads("input z: [C64; 2]; out l = sum(real(where(real(z) > 0.5, sqrt(z), 0.0))) + sum(abs(z));").grad(
        ["z"]
    )
    found = func.run(z=np.array([0, 1], np.complex64))[0]
    np.testing.assert_allclose(found, [0, 1.5], atol=1e-6)


def test_batches_of_complex_programs_are_loops(rng: np.random.Generator) -> None:
    func = rlx.loads("input z: [C64; 3, 3]; out y = exp(z @ z) / (z + 4.0);")
    z = (_complex(rng, 5, 3, 3) * 0.3).astype(np.complex64)
    for device in ("reference", "cpu"):
        found = func.vmap(["z"]).run_on(device, z=z)[0]
        np.testing.assert_allclose(found, np.stack([func.run_on(device, z=one)[0] for one in z]), rtol=1e-5)


def test_python_numbers_and_arrays_are_complex_operands() -> None:
    func = rlx.Func("f", lambda s: s.input("x", [2]) * 2j + s.constant(np.array([1, 1j], np.complex64)))
    assert func.run(x=[1.0, 3.0])[0].tolist() == [1 + 2j, 7j]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("out y = z < z;", "`<`"),
        ("out y = max(z);", "`max`"),
        ("out y = prod(z);", "`prod`"),
        ("out y = cumprod(z);", "`cumprod`"),
        ("out y = z % 2.0;", "`%`"),
        ("out y = relu(z);", "`relu`"),
        ("out y = softmax(z);", "`softmax`"),
        ("out y = sort(z);", "`sort`"),
        ("out y = clamp(z, 0, 1);", "`clamp`"),
        ("out y = clamp_min(z, 0);", "`clamp`"),
        ("out y = cast(z, F32);", "imaginary part"),
        ("out y = cast(z, I32);", "imaginary part"),
        ("out y = complex(z);", "`complex`"),
        ('out y = scatter(z, [0], z[0..1], 0, "max");', "`scatter_max`"),
        ("out y = floor(z);", "`floor`"),
        ("out y = norm(z);", "`norm`"),
    ],
)
def test_what_has_no_meaning_for_complex_numbers_is_refused_by_name(source: str, said: str) -> None:
    with pytest.raises(rlx.RlxTypeError) as problem:
        rlx.loads(f"input z: [C64; 3]; {source}")
    assert problem.value.diagnostics[0].code == "E0301"
    assert said in problem.value.diagnostics[0].message


def test_a_complex_loss_has_no_gradient() -> None:
    with pytest.raises(rlx.RlxTransformError, match="C64"):
        rlx.loads("input z: [C64; 3]; out y = sum(z);").grad(["z"])


# ------------------------------------------------------------------------------------------ parameters

MODEL = "input x: [4]; param w: [C64; 4]; let l = mean(square(abs(fft(x) * w - 1.0))); out l;"


def test_complex_parameters_are_bound_saved_and_differentiated(tmp_path: Path, rng: np.random.Generator) -> None:
    w, x = _complex(rng, 4), rng.normal(size=4).astype(np.float32)
    func = rlx.loads(MODEL).init_params(lambda name, dims: w)
    path = tmp_path / "weights.safetensors"
    save_weights(func, path)
    again = load_weights(rlx.loads(MODEL), path)
    np.testing.assert_array_equal(again.param_binding("w"), w)
    gradient = again.value_and_grad_all().run_on("cpu", x=x)[1]
    spectrum = np.fft.fft(x)
    np.testing.assert_allclose(gradient, spectrum * (spectrum * w - 1).conj() / 2, rtol=1e-4, atol=1e-5)


def test_optimizers_and_random_initialisers_refuse_complex_parameters(rng: np.random.Generator) -> None:
    func = rlx.loads(MODEL).with_param("w", _complex(rng, 4))
    x = np.ones(4, np.float32)
    refused: list[Callable[[], object]] = [
        lambda: func.train_step_all(rlx.optim.Sgd(0.1), {"x": x}),
        lambda: func.trainer(rlx.optim.Adam(0.1)),
        lambda: func.init_randn(0, 0.1),
        lambda: rlx.loads(MODEL.replace("[C64; 4];", "[C64; 4] = he_normal();")).init_params(seed=0),
    ]
    for act in refused:
        with pytest.raises(rlx.RlxTypeError, match="`w` is C64") as problem:
            act()
        assert problem.value.diagnostics[0].code == "E0301"
    zeros = rlx.loads(MODEL.replace("[C64; 4];", "[C64; 4] = zeros();")).init_params(seed=0)
    assert zeros.param_binding("w").dtype == np.complex64


# ------------------------------------------------------------------------------------------ tools


def test_graphs_print_complex_constants_and_are_read_back() -> None:
    func = rlx.loads("const k = [1.0, 2.0] : C64; input z: [C64; 2]; out y = fft(z * k) * 2.5;")
    assert "C64[2]{1.0+0.0j, 2.0+0.0j}" in str(func)
    text = print_graph(func.graph)
    assert print_graph(parse_graph(text)) == text


def test_switches_for_debugging_show_magnitudes() -> None:
    func = rlx.loads("input z: [C64; 2]; out y = log(z * 2.0);")
    with rlx.debug_nans(), pytest.raises(rlx.RlxRuntimeError, match="`log` makes"):
        func.run(z=np.zeros(2, np.complex64))


def test_differences_need_a_wider_type() -> None:
    with pytest.raises(rlx.RlxTransformError, match="`rfft` gives C64"):
        rlx.check_grads(rlx.loads("input x: [4]; out y = sum(abs(rfft(x)));"), {"x": np.ones(4)})
