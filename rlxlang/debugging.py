"""Finding the op that first makes a NaN or an infinity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, TypeAlias

import numpy as np

from rlxlang.compiler import ReferenceCompiled
from rlxlang.diagnostics import RlxRuntimeError
from rlxlang.ir import Graph, GraphOutput, Node
from rlxlang.types import TensorType

Array: TypeAlias = "np.ndarray[Any, Any]"

_watching = False


class debug_nans:  # noqa: N801 - a switch that reads as a function
    """Watch every run for NaN and infinities; the first op that makes one from finite operands is named with its source line.

    While it is on, functions run op by op in NumPy, on whatever device they are asked for. What `jit` returned before is not
    watched.

    Args:
        on: Whether to watch from now on; in a `with` block, until its end.

    Example:
        >>> import rlxlang as rlx
        >>> with rlx.debug_nans():  # doctest: +SKIP
        ...     model.run(x=x)
    """

    def __init__(self, on: bool = True) -> None:
        global _watching
        self._before, _watching = _watching, on

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        global _watching
        _watching = self._before


def is_watching() -> bool:
    """Whether runs are watched."""
    return _watching


class WatchedCompiled(ReferenceCompiled):
    """A graph run by the interpreter, all values looked at."""

    def __init__(self, graph: Graph) -> None:
        seen = [n for n in graph.nodes if isinstance(n.type, TensorType) and n.dtype.is_differentiable]
        outputs = [*graph.outputs, *(GraphOutput(f"node {k}", n) for k, n in enumerate(seen))]
        super().__init__(Graph(graph.name, graph.inputs, tuple(outputs), graph.guards))
        self._seen = seen
        self._count = len(graph.outputs)

    def run(self, feeds: Sequence[Array], params: Mapping[str, Array], sizes: Mapping[str, int]) -> list[Array]:
        """See `Compiled.run`.

        Raises:
            RlxRuntimeError: E0813 a value is NaN or infinite and its operands are not.
        """
        with np.errstate(all="ignore"):
            results = super().run(feeds, params, sizes)
        finite = {n: bool(np.isfinite(a).all()) for n, a in zip(self._seen, results[self._count :], strict=True)}
        for node, value in zip(self._seen, results[self._count :], strict=True):
            if not finite[node] and node.op.name != "constant" and all(finite.get(i, True) for i in node.inputs):
                raise _found(node, value)
        return results[: self._count]


def _found(node: Node, value: Array) -> RlxRuntimeError:
    bad = ~np.isfinite(value)
    place = [int(i) for i in np.argwhere(bad)[0]]
    made = f"`{node.op.name}` makes"
    what = f"the {node.attrs['kind']} `{node.attrs['name']}` holds" if node.op.name == "input" else made
    notes = [f"{int(bad.sum())} of {value.size} values are not finite"]
    if node.origin.via:
        notes.append(f"the op comes from {' of '.join(reversed(node.origin.via))}")
    return RlxRuntimeError(f"{what} {value[tuple(place)]} at {place}", code="E0813", span=node.origin.span, notes=notes)
