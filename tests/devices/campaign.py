"""What must hold for a random graph; raises AssertionError, or whatever the fault raises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rlxlang.interp import evaluate
from rlxlang.ir import Graph
from rlxlang.transforms import jvp, value_and_grad, vmap
from rlxlang.types import Dim
from tests.devices.random_programs import RandomProgram
from tests.devices.running import Array, Runner, mismatches

SIZES = [{"?a": 5, "?b": 33}, {"?a": 1, "?b": 1}, {"?a": 19, "?b": 40}, {"?a": 5, "?b": 33}]


def known_sizes(graph: Graph, sizes: Mapping[str, int]) -> dict[str, int] | None:
    """The sizes of the axes of its inputs; None when it uses one that no input has."""
    axes = graph.axes()
    inputs = {str(d) for entry in graph.inputs for d in entry.node.shape if isinstance(d, Dim)}
    return {a: sizes[a] for a in axes} if inputs >= set(axes) else None


def _tolerance(graph: Graph, arrays: Mapping[str, Array], sizes: Mapping[str, int], want: Sequence[Array]) -> float:
    """What rounding of the inputs does to the results, and a little.

    Long chains may lose many digits, and 1 - tanh² of a saturated tanh keeps hardly any.
    """
    spread, scale = 0.0, 1.0
    for factor in (1 + 2e-6, 1 - 1e-6):
        moved = {n: np.asarray(a * np.float32(factor)) for n, a in arrays.items()}
        for near, value in zip(evaluate(graph, moved, sizes), want, strict=True):
            finite = np.isfinite(value) & np.isfinite(near)
            spread = max(spread, float(np.max(np.abs(near - value), where=finite, initial=0)))
            scale = max(scale, float(np.max(np.abs(value), where=finite, initial=0)))
    return 2e-4 * scale + 30 * spread


def check_graph(maker: RandomProgram, graph: Graph, device: str, every_size: Sequence[dict[str, int]]) -> None:
    if known_sizes(graph, maker.sizes) is None:
        return
    runner = Runner(graph, device)
    for number, sizes in enumerate(every_size):
        arrays = maker.arrays_for(sizes, number)
        known = known_sizes(graph, sizes)
        assert known is not None
        want = evaluate(graph, arrays, known)
        differing = mismatches(graph, runner(arrays), want, 1e-4, _tolerance(graph, arrays, known, want))
        assert not differing, f"seed {maker.seed}, {sizes}\n" + "\n".join(differing)


def gradients(maker: RandomProgram) -> Graph:
    return value_and_grad(maker.loss(), [entry.attrs["name"] for entry in maker.inputs])


def check_modes(maker: RandomProgram) -> None:
    """Forward mode along random tangents is the inner product with the gradient of reverse mode.

    In F32 both lose digits along a long chain, so they may differ by what the rounding of the inputs does to them.
    """
    graph = maker.loss()
    known = known_sizes(graph, maker.sizes)
    if known is None:
        return
    names = [entry.name for entry in graph.inputs]
    arrays = maker.arrays_for(maker.sizes, 1)
    rng = np.random.default_rng(maker.seed)
    tangents = {n: np.asarray(rng.normal(size=a.shape), np.float32) for n, a in arrays.items()}
    forward, reverse = jvp(graph, names), value_and_grad(graph, names)

    def both(factor: float) -> tuple[float, float, float]:
        moved = {n: np.asarray(a * np.float32(factor)) for n, a in arrays.items()}
        along = evaluate(forward, {**moved, **{f"tangent_{n}": t for n, t in tangents.items()}}, known)[1]
        slopes = evaluate(reverse, moved, known)[1:]
        parts = [s.astype(np.float64) * tangents[n] for n, s in zip(names, slopes, strict=True)]
        return float(along), float(sum(p.sum() for p in parts)), float(sum(np.abs(p).sum() for p in parts))

    along, product, size = both(1.0)
    if not np.isfinite([along, product, size]).all():
        assert np.isnan(along) == np.isnan(product) or not np.isfinite(along), (
            f"seed {maker.seed}: {along} and {product}"
        )
        return
    near = both(1 + 2e-6)
    spread = max(abs(near[0] - along), abs(near[1] - product)) if np.isfinite(near).all() else size
    assert abs(along - product) <= 1e-3 * size + 30 * spread + 1e-5, (
        f"seed {maker.seed}: forward {along}, reverse {product}"
    )


def check_batches(maker: RandomProgram, lanes: int = 3) -> None:
    """A batch is a loop over its lanes, whatever inputs are batched, and along any axis."""
    graph = maker.build()
    known = known_sizes(graph, maker.sizes)
    if known is None:
        return
    rng = np.random.default_rng(maker.seed)
    every = [maker.arrays_for(maker.sizes, k) for k in range(lanes)]
    chosen = [e.name for e in graph.inputs if rng.random() < 0.6] or [graph.inputs[0].name]
    axes = {n: int(rng.integers(0, every[0][n].ndim + 1)) for n in chosen}
    batched = vmap(graph, axes)
    given = {n: np.stack([lane[n] for lane in every], axes[n]) if n in axes else every[0][n] for n in every[0]}
    got = evaluate(batched, given, {**known, **({"?vmap": lanes} if "?vmap" in batched.axes() else {})})
    for k, lane in enumerate(every):
        own = {n: lane[n] if n in axes else every[0][n] for n in lane}
        want = evaluate(graph, own, known)
        mine = [np.asarray(a[k]) for a in got]
        differing = mismatches(graph, mine, want, 1e-4, _tolerance(graph, own, known, want))
        assert not differing, f"seed {maker.seed}, lane {k} of {axes}\n" + "\n".join(differing)
