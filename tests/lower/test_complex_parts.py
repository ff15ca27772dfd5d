"""Programs of complex graphs know real numbers only, and write where they are told to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlxlang as rlx
from rlxlang.backends.reference import ReferenceBackend
from rlxlang.interp import evaluate, read_sizes
from rlxlang.kernels import Copy, Load, Nest, roots, walk
from rlxlang.lower import lower
from rlxlang.types import C64, F32

SOURCES = {
    "moves": """
        input z: [C64; ?b, 6]; input w: [C64; 6, 3];
        out y = (z * 2.0) @ w; out same = z; out turned = transpose(z); out flat = reshape(transpose(z), [-1]);
        out sums = cumsum(z, 0); out spectrum = fft(z); out line = irfft(z); out size = abs(z);
    """,
    "scan": """
        input z: [C64; ?b, 6]; input w: [C64; 6, 3];
        scan h = z[0] over s in z { let h = h * 0.5 + s; emit h as hs; }
        out h; out hs; out last = w;
    """,
    "branch": """
        input z: [C64; ?b, 6]; input w: [C64; 6, 3];
        if abs(z[0, 0]) > 0.0 { let y = z * z; let v = w; } else { let y = z; let v = conj(w); }
        out y; out v;
    """,
}


@pytest.mark.parametrize("name", SOURCES)
def test_kernels_of_complex_graphs_compute_what_the_interpreter_does(name: str, rng: np.random.Generator) -> None:
    graph = rlx.loads(SOURCES[name]).graph
    arrays: dict[str, Any] = {
        n: (rng.normal(size=s) + 1j * rng.normal(size=s)).astype(np.complex64)
        for n, s in (("z", (4, 6)), ("w", (6, 3)))
    }
    lowered = lower(graph, threads=2)
    executable = ReferenceBackend().compile(lowered.program)
    found = executable.run({lowered.buffer_of[n]: a for n, a in arrays.items()}, read_sizes(graph, arrays))
    for left, right in zip(found, evaluate(graph, arrays), strict=True):
        assert (left.dtype, left.shape) == (right.dtype, right.shape)
        np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-5)


def test_kernels_see_real_numbers_in_the_memory_of_complex_ones() -> None:
    program = lower(rlx.loads("input z: [C64; ?b, 6]; out y = z * 2.0; out e = exp(z);").graph).program
    assert {b.dtype for b in program.buffers if b.kind in ("input", "output")} == {C64}
    assert all(b.dtype != C64 for b in program.buffers if b.kind == "temp")
    nests = [s for s in program.walk() if isinstance(s, Nest)]
    for nest in nests:
        assert {e.dtype for e in walk(*roots(nest)) if isinstance(e, Load)} <= {F32}
    # Inputs are read and outputs written in place.
    assert not any(isinstance(s, Copy) for s in program.walk())
