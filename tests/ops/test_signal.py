"""Fourier transforms against NumPy and SciPy, their derivatives against differences, on every device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.signal

import rlxlang as rlx
from rlxlang.interp import evaluate
from rlxlang.types import C64, F32, Dim, TensorType
from tests.devices.running import DEVICES, Runner
from tests.ops.calls import build, call, pull

Array = np.ndarray[Any, Any]
CLOSE = {"rtol": 1e-5, "atol": 2e-5}


def _complex(rng: np.random.Generator, *shape: int) -> Array:
    return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(np.complex64)


def _real(rng: np.random.Generator, *shape: int) -> Array:
    return rng.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize(("n", "axis"), [(None, -1), (None, 0), (3, 1), (9, 0), (5, -1), (1, 1)])
def test_transforms_along_an_axis(n: int | None, axis: int, norm: str, rng: np.random.Generator) -> None:
    z, x = _complex(rng, 6, 5), _real(rng, 6, 5)
    for name in ("fft", "ifft", "irfft"):
        want = getattr(np.fft, name)(z.astype(np.complex128), n, axis, norm)
        found = call(name, z, n, axis, norm)
        assert found.dtype == (np.float32 if name == "irfft" else np.complex64)
        np.testing.assert_allclose(found, want, **CLOSE)
    np.testing.assert_allclose(
        call("rfft", x, n, axis, norm), np.fft.rfft(x.astype(np.float64), n, axis, norm), **CLOSE
    )
    np.testing.assert_allclose(call("fft", x, n=n, axis=axis, norm=norm), np.fft.fft(x, n, axis, norm), **CLOSE)


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_transforms_over_axes(norm: str, rng: np.random.Generator) -> None:
    z, x = _complex(rng, 3, 4, 5), _real(rng, 3, 4, 5)
    for axes in (None, (0,), (2, 0), (-1, -2)):
        for name in ("fftn", "ifftn"):
            np.testing.assert_allclose(
                call(name, z, axes, norm), getattr(np.fft, name)(z, axes=axes, norm=norm), **CLOSE
            )
        want = np.fft.rfftn(x, axes=axes, norm=norm)
        found = call("rfftn", x, axes, norm)
        np.testing.assert_allclose(found, want, **CLOSE)
        n = x.shape[-1 if axes is None else axes[-1]]
        np.testing.assert_allclose(call("irfftn", found, n, axes, norm), x, **CLOSE)
    np.testing.assert_allclose(call("fft2", z), np.fft.fft2(z), **CLOSE)
    np.testing.assert_allclose(call("ifft2", z), np.fft.ifft2(z), **CLOSE)
    np.testing.assert_allclose(call("fft_axis", z, 1), np.fft.fft(z, axis=1), **CLOSE)
    np.testing.assert_allclose(call("fft_axis", z, 0, True), np.fft.ifft(z, axis=0), **CLOSE)
    assert call("fftn", z, ()).tolist() == z.tolist()


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_orders_and_frequencies(n: int, rng: np.random.Generator) -> None:
    x = _real(rng, n, 3)
    np.testing.assert_array_equal(call("fftshift", x), np.fft.fftshift(x))
    np.testing.assert_array_equal(call("ifftshift", x, 0), np.fft.ifftshift(x, 0))
    np.testing.assert_allclose(call("fftfreq", n, 0.25), np.fft.fftfreq(n, 0.25), rtol=1e-6)
    np.testing.assert_allclose(call("rfftfreq", n), np.fft.rfftfreq(n), rtol=1e-6)
    for name in ("hann", "hamming", "blackman"):
        np.testing.assert_allclose(call(f"{name}_window", n), scipy.signal.get_window(name, n), atol=1e-6)


@pytest.mark.parametrize(("n", "hop", "length"), [(8, 2, 40), (8, 8, 32), (9, 4, 37), (4, 1, 11), (1, 1, 5)])
def test_short_time_transforms_are_those_of_scipy(n: int, hop: int, length: int, rng: np.random.Generator) -> None:
    x = _real(rng, 2, length)
    for window in ("hann", "hamming"):
        weights = scipy.signal.get_window(window, n)
        # scipy divides by the sum of the window, and continues by zeros unless told.
        padded = np.pad(x, ((0, 0), (n // 2, n // 2)), mode="reflect")
        for center, signal in ((True, padded), (False, x)):
            options: dict[str, Any] = {"nperseg": n, "noverlap": n - hop, "boundary": None, "padded": False}
            _, _, want = scipy.signal.stft(signal, window=weights, **options)
            found = call("stft", x, n, hop, window, center)
            np.testing.assert_allclose(found, want * weights.sum(), **CLOSE)
    own = _real(rng, n)
    np.testing.assert_allclose(call("stft", x, n, hop, own), call("stft", x, n, hop, own, True), rtol=0)


@pytest.mark.parametrize(("n", "hop", "length"), [(8, 2, 40), (9, 4, 37), (8, 4, 43)])
def test_istft_restores_the_signal(n: int, hop: int, length: int, rng: np.random.Generator) -> None:
    x = _real(rng, 3, length)
    for window in ("hann", "hamming", None):
        spectrum = call("stft", x, n, hop, window)
        found = call("istft", spectrum, n, hop, window, length=length)
        covered = (spectrum.shape[-1] - 1) * hop  # the last frame is centred there
        np.testing.assert_allclose(found[..., :covered], x[..., :covered], **CLOSE)
        assert found.shape == x.shape
        assert call("istft", spectrum, n, hop, window).shape[-1] == (spectrum.shape[-1] - 1) * hop + n % 2


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize(("p", "q"), [(9, 4), (16, 5), (7, 1), (3, 3)])
def test_convolution_by_transforms(p: int, q: int, mode: str, rng: np.random.Generator) -> None:
    x, h, z = _real(rng, 2, p), _real(rng, q), _complex(rng, q)
    for other in (h, z):
        want = np.stack([scipy.signal.convolve(row, other, mode, "direct") for row in x])
        np.testing.assert_allclose(call("fft_convolve", x, other, mode), want, **CLOSE)


# ------------------------------------------------------------------------------------------ derivatives

LOSSES: dict[str, tuple[str, Callable[[Array], Any]]] = {
    "rfft even": ("sum(square(abs(rfft(x[0..6]))) * w[0..4])", lambda x, w: (np.abs(np.fft.rfft(x[:6])) ** 2 * w[:4]).sum()),
    "rfft odd": ("sum(real(rfft(x)) * w[0..4] + imag(rfft(x)))", lambda x, w: (np.fft.rfft(x).real * w[:4] + np.fft.rfft(x).imag).sum()),
    "irfft": (
        "sum(square(irfft(rfft(x) * complex(w[0..4], 0.5), 7)) * w)",
        lambda x, w: (np.fft.irfft(np.fft.rfft(x) * (w[:4] + 0.5j), 7) ** 2 * w).sum(),
    ),
    "irfft even": (
        "sum(irfft(complex(x[0..4], x[3..7]), 6) * w[0..6])",
        lambda x, w: (np.fft.irfft(x[:4] + 1j * x[3:], 6) * w[:6]).sum(),
    ),
    "fft": ("sum(square(abs(fft(x * w))) * w)", lambda x, w: (np.abs(np.fft.fft(x * w)) ** 2 * w).sum()),
    "ifft": ("sum(abs(ifft(complex(x, w))) * w)", lambda x, w: (np.abs(np.fft.ifft(x + 1j * w)) * w).sum()),
    "stft": (
        "sum(square(abs(stft(x * w, 4, 2, center: false))))",
        lambda x, w: sum(
            (np.abs(np.fft.rfft((x * w)[k : k + 4] * scipy.signal.get_window("hann", 4))) ** 2).sum() for k in (0, 2)
        ),
    ),
    "phase": ("sum(angle(fft(x)) * w)", lambda x, w: (np.angle(np.fft.fft(x)) * w).sum()),
    "convolution": ("sum(square(fft_convolve(x, w)))", lambda x, w: (np.convolve(x, w) ** 2).sum()),
}  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_of_real_losses_are_differences(name: str, rng: np.random.Generator) -> None:
    expression, function = LOSSES[name]
    func = rlx.loads(f"input x: [7]; input w: [7]; out l = {expression};")
    x, w = rng.normal(size=7), rng.uniform(0.5, 1.5, size=7)
    step = 1e-5
    unit = np.eye(7) * step
    slope = np.array([(function(x + e, w) - function(x - e, w)) / (2 * step) for e in unit])
    arrays = {"x": x.astype(np.float32), "w": w.astype(np.float32)}
    for device in ("reference", "cpu"):
        np.testing.assert_allclose(func.grad(["x"]).run_on(device, **arrays)[0], slope, rtol=2e-4, atol=2e-4)
    way = rng.normal(size=7)
    bend = func.hvp(["x"]).run_on("reference", tangent_x=way.astype(np.float32), **arrays)[0]

    def gradient(at: Array) -> Array:
        return np.array([(function(at + e, w) - function(at - e, w)) / (2 * step) for e in unit])

    difference = (gradient(x + 1e-3 * way) - gradient(x - 1e-3 * way)) / 2e-3
    np.testing.assert_allclose(bend, difference, rtol=2e-3, atol=5e-3)


def test_the_pull_back_of_a_transform_is_the_transform(rng: np.random.Generator) -> None:
    z, ct = _complex(rng, 5), _complex(rng, 5)
    np.testing.assert_allclose(pull("fft", z, ct=ct), np.fft.fft(ct), **CLOSE)
    np.testing.assert_allclose(pull("ifft", z, ct=ct), np.fft.ifft(ct), **CLOSE)


# ------------------------------------------------------------------------------------------ dynamic sizes, devices

PROGRAM = """
input x: [?b, ?n];
input z: [C64; ?b, ?m];
out f = fft(x);
out r = irfft(rfft(x), dim(x, 1), norm: "ortho");
out i = irfft(z);
out cut = fft(z, 4);
out both = ifftn(z, norm: "forward");
out short = stft(x, 4, 3);
out back = istft(short, 4, 3, length: dim(x, 1));
out turned = fftshift(z, 1);
out line = rfftfreq(dim(x, 1));
out joined = fft_convolve(x, hann_window(3), "same");
"""


# Compiling for OpenCL takes long: what calls each routine.
SHORT = "input x: [?b, ?n]; input z: [C64; ?b, ?m]; out f = fft(x); out i = irfft(z); out short = stft(x, 4, 3);"


@pytest.mark.parametrize("device", ["reference", *DEVICES])
def test_one_program_serves_every_size(device: str, rng: np.random.Generator) -> None:
    func = rlx.loads(SHORT if device == "opencl" else PROGRAM)
    for b, n, m in ((2, 9, 3), (1, 12, 6), (3, 8, 2), (0, 7, 5)):
        x, z = _real(rng, b, n), _complex(rng, b, m)
        if b == 0:  # `ifftn` transforms that axis, too
            if device != "opencl":
                with pytest.raises(rlx.RlxRuntimeError, match="fft"):
                    func.run_on(device, x=x, z=z)
            continue
        found = dict(zip(func.output_names(), func.run_on(device, x=x, z=z), strict=True))
        want = {
            "f": np.fft.fft(x), "r": x * np.sqrt(n), "i": np.fft.irfft(z), "cut": np.fft.fft(z, 4), "both": np.fft.ifftn(z, norm="forward"),
            "short": call("stft", x, 4, 3), "turned": np.fft.fftshift(z, 1), "line": np.fft.rfftfreq(n),
            "joined": np.stack([np.convolve(row, scipy.signal.get_window("hann", 3), "same") for row in x]),
        }  # fmt: skip
        for name, value in found.items():
            if name != "back":
                np.testing.assert_allclose(value, want[name], err_msg=name, **CLOSE)
        if "back" not in found:
            continue
        covered = (found["short"].shape[-1] - 1) * 3
        np.testing.assert_allclose(found["back"][:, :covered], x[:, :covered], **CLOSE)


def test_empty_batches_have_empty_spectra() -> None:
    for device in ("reference", *DEVICES):
        func = rlx.loads("input x: [?b, 4]; out y = fft(x); out z = irfft(rfft(x));")
        assert [a.shape for a in func.run_on(device, x=np.zeros((0, 4), np.float32))] == [(0, 4), (0, 4)]


def test_real_types_are_transformed_in_single_precision() -> None:
    for dtype in ("F16", "BF16", "F64", "I32", "Bool"):
        func = rlx.loads(f"input x: [{dtype}; 4]; out y = rfft(x); out z = fft(x);")
        assert [o.node.dtype for o in func.graph.outputs] == [C64, C64]


def test_batches_are_loops(rng: np.random.Generator) -> None:
    func = rlx.loads("input x: [2, 6]; out y = ifft(rfft(x), 5, axis: 0);")
    x = _real(rng, 4, 2, 6)
    found = func.vmap(["x"]).run(x=x)[0]
    np.testing.assert_allclose(found, np.stack([func.run(x=one)[0] for one in x]), **CLOSE)


def test_routines_are_called_inside_loops(rng: np.random.Generator) -> None:
    func = rlx.loads("input x: [C64; 6]; scan h = x for 3 { let h = fft(h) * 0.5; } out h;")
    x = _complex(rng, 6)
    want = x
    for _ in range(3):
        want = np.fft.fft(want) * 0.5
    for device in ("reference", "cpu"):
        np.testing.assert_allclose(func.run_on(device, x=x)[0], want, **CLOSE)


def test_lengths_are_known_where_they_can_be() -> None:
    n = Dim.axis("?n")
    for name, given, shape in (
        ("fft", TensorType(C64, (n,)), (n,)),
        ("irfft", TensorType(C64, (n,)), (2 * n - 2,)),
        ("rfft", TensorType(F32, (8, n)), (8, n // 2 + 1)),
    ):
        graph, _ = build(name, given)
        assert graph.outputs[0].node.shape == shape


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ("fft(zeros([0]))", "E0409"),
        ("rfft(z)", "E0301"),
        ("stft(z, 2)", "E0301"),
        ("fft(x, axis: 1)", "E0403"),
        ('fft(x, norm: "unitary")', "E0350"),
        ("fft(x, n: -1)", "E0350"),
        ("fft(x, n: 0)", "E0409"),
        ("irfft(z[0..1])", "E0409"),
        ("stft(x, 0)", "E0350"),
        ("hann_window(1000000000)", "E0350"),
        ("stft(x, 16)", "E0409"),
        ("stft(x, 16, center: false)", "E0405"),
        ('stft(x, 4, window: "kaiser")', "E0350"),
        ("stft(x, 4, window: x)", "E0404"),
        ("stft(x, 4, hop: 0)", "E0350"),
        ("istft(z)", "E0404"),
        ('fft_convolve(x, x, "causal")', "E0350"),
        ('fft_convolve(x[0..2], x, "valid")', "E0405"),
        ("rfftn(x, [])", "E0350"),
        ("fftn(x, [0, 0])", "E0403"),
        ("hann_window(0)", "E0350"),
        ("fftfreq(4, 0.0)", "E0350"),
    ],
)
def test_wrong_calls_are_refused(expression: str, code: str) -> None:
    with pytest.raises(rlx.RlxError) as problem:
        rlx.loads(f"input x: [8]; input z: [C64; 8]; out y = {expression}; out all = x; out more = z;")
    assert problem.value.diagnostics[0].code == code


def test_a_long_transform_keeps_its_precision(rng: np.random.Generator) -> None:
    x = _real(rng, 1 << 14)
    graph, arrays = build("fft", x)
    want = np.fft.fft(x.astype(np.float64))
    for found in (evaluate(graph, arrays)[0], Runner(graph, "cpu")(arrays)[0]):
        assert np.abs(found - want).max() < 1e-6 * np.abs(want).max()
