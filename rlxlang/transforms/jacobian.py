"""Whole Jacobians: a derivative graph applied to every unit vector at once by batching it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

from rlxlang.diagnostics import RlxTransformError
from rlxlang.ir import Builder, Graph, GraphInput, GraphOutput, Node, declare, topological
from rlxlang.ops import emit
from rlxlang.ops.control import scan
from rlxlang.transforms.batching import batch_nodes, move_axis
from rlxlang.transforms.errors import is_count, require_differentiable, wanted_inputs
from rlxlang.transforms.forward import linearize
from rlxlang.transforms.replay import expand, replay, replay_inputs, unique_name
from rlxlang.transforms.reverse import grad, vjp
from rlxlang.transforms.splitting import split
from rlxlang.types import C64, I32, I64, DimLike, DType, TensorType, TupleType

Chunk: TypeAlias = 'int | Literal["auto"] | None'

MEMORY = 32 * 2**20
"""Bytes that `chunk="auto"` spends on values in between when no budget is given."""

_ALL = ("`chunk=None` takes all at once",)


def _unit_vectors(b: Builder, type_: TensorType, start: Node | None, count: DimLike) -> Node:
    """`count` unit vectors of a tensor's space from number `start` (None: 0) on, stacked along a new first axis."""
    size = type_.size
    index = I64 if not isinstance(size, int) or size > 2**31 - 1 else I32
    row = emit.iota(b, (count, size), 0, index)
    if start is not None:
        row = emit.add(b, row, emit.broadcast_to(b, emit.cast(b, start, index), row.shape))
    column = emit.iota(b, (count, size), 1, index)
    flat = emit.cast(b, b.emit("eq", row, column), type_.dtype)
    return emit.reshape(b, flat, (count, *type_.shape))


def lanes(size: DimLike, chunk: Chunk, memory: int | None, step: Callable[[int], Graph]) -> int | None:
    """How many unit vectors to take at a time; None for all.

    Args:
        size: Number of unit vectors.
        chunk: That number, `"auto"`, or None for all.
        memory: For `"auto"`: bytes that the values in between may take, `MEMORY` when left out.
        step: What is computed for so many of them.

    Raises:
        RlxTransformError: E0500 not positive, over dynamic shapes, or `memory` without `"auto"`.
    """
    if chunk != "auto" and memory is not None:
        raise RlxTransformError(
            '`memory` is the budget of `chunk="auto"`', helps=('write `chunk="auto"`, or leave `memory` out',)
        )
    if chunk is None:
        return None
    if chunk != "auto" and not is_count(chunk):
        raise RlxTransformError(f'`chunk` is {chunk!r}, it must be an integer of 1 or more, or "auto"')
    if memory is not None and not is_count(memory):
        raise RlxTransformError(f"`memory` is {memory!r}, it must be a number of bytes of 1 or more")
    if not isinstance(size, int):
        raise RlxTransformError("`chunk` needs static shapes", notes=(f"the number of elements is {size}",), helps=_ALL)
    if chunk == "auto":
        # Half of the budget is for gaps: no plan packs values of different lives without any.
        return min(max(1, (memory or MEMORY) // max(1, live_bytes(step(2)))), max(1, size))
    return chunk


def live_bytes(graph: Graph) -> int:
    """The most bytes that are alive at once of what is computed in a graph, each value from its making to its last use.

    Fused kernels hold less, so this is an upper estimate.

    Raises:
        RlxTransformError: E0500 a size is dynamic.
    """
    last: dict[Node, int] = dict.fromkeys((o.node for o in graph.outputs), len(graph.nodes))
    for k, node in reversed([*enumerate(graph.nodes)]):
        for operand in node.inputs:
            # Who reads an item reads its source.
            last[operand] = max(last.get(operand, 0), last.get(node, k) if node.op.name == "item" else k)
    ends: dict[int, int] = {}
    alive = most = 0
    for k, node in enumerate(graph.nodes):
        if node.op.name not in ("input", "item"):  # an item is a part of its source, which is counted
            held = _bytes(node)
            alive += held
            ends[last.get(node, k)] = ends.get(last.get(node, k), 0) + held
        most = max(most, alive)
        alive -= ends.pop(k, 0)
    return most


def _bytes(node: Node) -> int:
    types = node.type.items if isinstance(node.type, TupleType) else (node.type,)
    total = 0
    for t in types:
        size = t.size
        if not isinstance(size, int):
            raise RlxTransformError("`chunk` needs static shapes", notes=(f"`{node.op.name}` gives {t}",), helps=_ALL)
        total += size * t.dtype.bytes
    return total


def over_unit_vectors(
    b: Builder,
    graph: Graph,
    shared: dict[str, Node],
    swept: str,
    chunk: Chunk,
    memory: int | None,
    finish: Callable[[Builder, Node, list[Node]], list[Node]] = lambda b, units, found: found,
) -> list[Node]:
    """The outputs of a graph for every unit vector of its input `swept`, the batch axis first.

    What does not depend on `swept` is computed once. Chunks are the steps of a scan, so that their values in between share memory.

    Args:
        b: The builder of the result.
        graph: The graph.
        shared: New nodes of its other inputs by name.
        swept: Name of the input that takes the unit vectors.
        chunk: See `lanes`.
        memory: See `lanes`.
        finish: What to keep of the outputs for some unit vectors.
    """
    entry = graph.input(swept)
    assert entry is not None
    graph, _ = expand(graph, "batch", [entry.node])
    halves = split(graph, [swept], graph.outputs)
    env = {e.node: shared[e.name] for e in graph.inputs if e.name != swept}
    for guard in graph.guards:
        b.require(guard)
    for node in topological(halves.residuals):
        if node not in env:
            with b.at(node.origin):
                env[node] = b.emit(node.op, *[env[i] for i in node.inputs], **node.attrs)
    kept = [env[r] for r in halves.residuals]
    space = halves.rest.inputs[-1].node.tensor

    def some(b: Builder, kept: Sequence[Node], start: Node | None, count: DimLike) -> list[Node]:
        units = _unit_vectors(b, space, start, count)
        lane: dict[Node, tuple[Node, Any]] = {}
        for other, node in zip(halves.rest.inputs[:-1], kept, strict=True):
            lane[other.node] = (node, None)
        lane[halves.rest.inputs[-1].node] = (units, 0)
        batch_nodes(b, halves.rest, lane, count)
        return finish(b, units, [_in_front(b, *lane[o.node], count) for o in halves.rest.outputs])

    index = I64 if not isinstance(space.size, int) or space.size > 2**31 - 1 else I32
    width = lanes(space.size, chunk, memory, lambda count: _body(some, count, index, halves.rest))
    if width is None or not isinstance(space.size, int) or width >= space.size:
        return some(b, kept, None, space.size)
    full, left = divmod(space.size, width)
    starts = emit.scale(b, emit.iota(b, (full,), 0, index), width)
    _, stacked = scan(b, _body(some, width, index, halves.rest), [], [starts], kept, full)
    parts = [emit.reshape(b, s, (full * width, *s.shape[2:])) for s in stacked]
    if not left:
        return parts
    tail = some(b, kept, b.constant(full * width, index), left)
    return [emit.concat(b, pair, 0) for pair in zip(parts, tail, strict=True)]


def _body(some: Callable[..., list[Node]], width: int, index: DType, rest: Graph) -> Graph:
    """One step of the scan over chunks: the number of its first unit vector, then what is shared."""
    b = Builder()
    start = b.input("start", index, ())
    kept = [b.input(e.name, e.node.dtype, e.node.shape) for e in rest.inputs[:-1]]
    found = some(b, kept, start, width)
    return b.finish("chunk", map(declare, [start, *kept]), [GraphOutput(f"y{k}", n) for k, n in enumerate(found)])


def _in_front(b: Builder, node: Node, axis: int | None, size: DimLike) -> Node:
    if axis is None:
        return b.emit("broadcast_to", node, shape=(size, *node.shape))
    return move_axis(b, node, axis, 0)


def _differentiable_outputs(graph: Graph) -> list[GraphOutput]:
    return [o for o in graph.outputs if o.role != "tap" and o.node.dtype.is_differentiable]


def jacfwd(
    graph: Graph, names: Sequence[str], chunk: Chunk = None, memory: int | None = None, holomorphic: bool = False
) -> Graph:
    """Jacobians `jac_<output>_<name>` of shape output + input, by forward mode: one pass over the unit vectors of each input.

    Args:
        graph: The function; its taps and integer outputs have no Jacobian.
        names: Inputs or params.
        chunk: How many unit vectors at a time; `"auto"` for as many as the budget allows, None for all.
        memory: The budget of `"auto"` in bytes: what the values in between may take. `MEMORY` when left out.
        holomorphic: The complex derivative of holomorphic outputs in complex inputs, by a single direction each.

    Raises:
        RlxTransformError: As `jvp`; E0501 a complex input without `holomorphic`, a real value with it; E0500 a chunk that is not
            positive, or over dynamic shapes.
    """
    require_differentiable(wanted_inputs(graph, names, "jacfwd"), "jacfwd")
    if holomorphic:
        _require_complex(graph, names, "jacfwd")
    else:
        _refuse_complex_inputs(graph, names)
    b = Builder()
    env, inputs = replay_inputs(b, graph)
    found: dict[tuple[str, str], Node] = {}
    wanted = _differentiable_outputs(graph)
    for name in names:
        linear = linearize(graph, [name])
        tangent = linear.inputs[-1].name
        shared = {e.name: env[e.node] for e in graph.inputs}
        columns = over_unit_vectors(b, linear, shared, tangent, chunk, memory)
        shape = input_of(graph, name).node.shape
        for output, column in zip(graph.outputs, columns, strict=True):
            rank = len(output.node.shape)
            last = emit.transpose(b, column, (*range(1, rank + 1), 0)) if rank else column
            found[output.name, name] = emit.reshape(b, last, (*output.node.shape, *shape))
    return collect(b, graph, inputs, [(f"jac_{o.name}_{n}", found[o.name, n]) for o in wanted for n in names])


def jacrev(
    graph: Graph, names: Sequence[str], chunk: Chunk = None, memory: int | None = None, holomorphic: bool = False
) -> Graph:
    """Jacobians as `jacfwd`, by reverse mode: one pass over the unit vectors of each output.

    In a complex input they are the gradients of the outputs as `grad` gives them: ∂/∂re − i ∂/∂im.

    Raises:
        RlxTransformError: As `vjp`; E0501 a complex output without `holomorphic`; otherwise as `jacfwd`.
    """
    pulled = vjp(graph, names)
    if holomorphic:
        _require_complex(graph, names, "jacrev")
    else:
        _refuse_complex_outputs(graph)
    b = Builder()
    env, inputs = replay_inputs(b, graph)
    wanted = _differentiable_outputs(graph)
    seeds = [e.name for e in pulled.inputs[len(graph.inputs) :]]
    gradients = Graph(pulled.name, pulled.inputs, pulled.outputs[len(graph.outputs) :], pulled.guards)
    shared = {e.name: env[e.node] for e in graph.inputs}
    results = []
    for output, seed in zip(wanted, seeds, strict=True):
        single = _with_zeros(gradients, [s for s in seeds if s != seed])
        rows = over_unit_vectors(b, single, shared, seed, chunk, memory)
        for name, row in zip(names, rows, strict=True):
            shape = (*output.node.shape, *input_of(graph, name).node.shape)
            results.append((f"jac_{output.name}_{name}", emit.reshape(b, row, shape)))
    return collect(b, graph, inputs, results)


def hessian(graph: Graph, names: Sequence[str], chunk: Chunk = None, memory: int | None = None) -> Graph:
    """Second derivatives `hess_<a>_<b>` of the loss, forward over reverse, of shape a + b; `chunk` and `memory` as in `jacfwd`.

    Raises:
        RlxTransformError: As `grad` and `jacfwd`.
    """
    require_differentiable(wanted_inputs(graph, names, "hessian"), "hessian")
    _refuse_complex_inputs(graph, names, "hessian")
    full = jacfwd(grad(graph, names), names, chunk, memory)
    titles = [f"hess_{a}_{b}" for a in names for b in names]
    outputs: list[GraphOutput] = []
    for title, output in zip(titles, full.outputs, strict=True):
        outputs.append(GraphOutput(unique_name(title, [o.name for o in outputs]), output.node))
    return Graph(graph.name, full.inputs, tuple(outputs), full.guards)


def hessian_diag(graph: Graph, names: Sequence[str], chunk: Chunk = None, memory: int | None = None) -> Graph:
    """The diagonal of the Hessian of the loss: `hess_diag_<name>`, of the shape of the input, exact.

    As many Hessian-vector products as the input has elements, of each of which one number is kept: the work is that of the whole
    Hessian, the memory that of a chunk.

    Args:
        graph: The function.
        names: Inputs or params.
        chunk: How many products at a time; as in `jacfwd`.
        memory: As in `jacfwd`.

    Raises:
        RlxTransformError: As `grad` and `jacfwd`.
    """
    require_differentiable(wanted_inputs(graph, names, "hessian_diag"), "hessian_diag")
    _refuse_complex_inputs(graph, names, "hessian_diag")
    b = Builder()
    env, inputs = replay_inputs(b, graph)
    results = []
    for name in names:
        linear = linearize(grad(graph, [name]), [name])
        tangent = linear.inputs[-1].name
        shared = {e.name: env[e.node] for e in graph.inputs}
        (diagonal,) = over_unit_vectors(b, linear, shared, tangent, chunk, memory, _diagonal)
        results.append((f"hess_diag_{name}", emit.reshape(b, diagonal, input_of(graph, name).node.shape)))
    return collect(b, graph, inputs, results)


def _diagonal(b: Builder, units: Node, rows: list[Node]) -> list[Node]:
    """Of each row the element that its unit vector picks; the others may be infinite."""
    picked = emit.keep(b, emit.compare(b, "ne", units, 0), rows[0])
    return [emit.reduce_sum(b, picked, range(1, picked.tensor.rank))]


def _with_zeros(graph: Graph, names: Sequence[str]) -> Graph:
    """The graph with some inputs set to zero."""
    if not names:
        return graph
    b = Builder()
    env, inputs = replay_inputs(b, graph)
    env.update({e.node: b.zeros_like(e.node) for e in graph.inputs if e.name in names})
    replay(b, graph, env)
    outputs = [GraphOutput(o.name, env[o.node], o.role) for o in graph.outputs]
    return b.finish(graph.name, [e for e in inputs if e.name not in names], outputs)


def _refuse_complex_inputs(graph: Graph, names: Sequence[str], transform: str = "jacfwd") -> None:
    """Refuse C64 inputs: one tangent direction per element does not tell both partial derivatives, by re and by im."""
    for name in names:
        entry = input_of(graph, name)
        if entry.node.dtype == C64:
            raise RlxTransformError(
                f"`{transform}`: `{name}` is C64; forward Jacobians are taken in real inputs",
                code="E0501",
                span=entry.node.origin.span,
                helps=(
                    "make its real and its imaginary part two inputs, `complex(re, im)`",
                    *(_OTHER_COMPLEX if transform == "jacfwd" else ()),
                ),
            )


def _refuse_complex_outputs(graph: Graph) -> None:
    """Refuse C64 outputs, for the same reason."""
    for output in _differentiable_outputs(graph):
        if output.node.dtype == C64:
            raise RlxTransformError(
                f"`jacrev`: the output `{output.name}` is C64; reverse Jacobians are taken of real outputs",
                code="E0501",
                span=output.node.origin.span,
                helps=(
                    "make `real` and `imag` of it two outputs; in real inputs `jacfwd` gives its Jacobian",
                    "where all is holomorphic, `holomorphic=True` gives the complex derivative",
                ),
            )


_OTHER_COMPLEX = (
    "of real outputs `jacrev` gives ∂/∂re − i ∂/∂im",
    "where all is holomorphic, `holomorphic=True` gives the complex derivative",
)


def _require_complex(graph: Graph, names: Sequence[str], transform: str) -> None:
    """A complex derivative is one of complex values in complex values."""
    real = [n for n in names if input_of(graph, n).node.dtype != C64]
    real += [o.name for o in _differentiable_outputs(graph) if o.node.dtype != C64]
    if real:
        raise RlxTransformError(
            f"`{transform}`: `holomorphic` takes C64 inputs and outputs, and {', '.join(f'`{n}`' for n in real)} is real",
            code="E0501",
        )


def input_of(graph: Graph, name: str) -> GraphInput:
    """The input of a name that has been checked."""
    entry = graph.input(name)
    assert entry is not None
    return entry


def collect(b: Builder, graph: Graph, inputs: list[GraphInput], results: list[tuple[str, Node]]) -> Graph:
    """The graph of these results, whose names are made unique."""
    outputs: list[GraphOutput] = []
    for title, node in results:
        outputs.append(GraphOutput(unique_name(title, [o.name for o in outputs]), node))
    return b.finish(graph.name, inputs, outputs)
