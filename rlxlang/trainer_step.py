"""One training step as one graph: forward, backward, clipping and the optimizer's update, parameters and state in place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from rlxlang.device import Device, backend_of, candidates, thread_count
from rlxlang.diagnostics import RlxBackendError
from rlxlang.graph_key import graph_key
from rlxlang.inputs import Signature
from rlxlang.ir import Builder, Graph, GraphInput, GraphOutput, Node, Origin, declare
from rlxlang.ops import emit
from rlxlang.resident import aligned_zeros
from rlxlang.training.step_parts import Written, averaged, chosen, gathered, judged, unscaled, wide
from rlxlang.training.step_state import StepState
from rlxlang.transforms import replay, replay_inputs, unique_name, value_and_grad
from rlxlang.types import F32, from_numpy

if TYPE_CHECKING:
    from rlxlang.training.quantizers import NamedQuantizer

Array: TypeAlias = "np.ndarray[Any, Any]"


class TracedOptimizer(Protocol):
    """An optimizer whose update can be compiled (`rlx.optim.Algorithm`)."""

    @property
    def needs_hessian(self) -> bool:
        """Whether `trace` takes a slot `estimate`, an estimate of the diagonal of the Hessian."""
        ...

    def trace_direction(self, b: Builder, name: str, param: Node, hyper: Mapping[str, Node]) -> tuple[Node, Node]:
        """A Bool scalar, whether the step wants an estimate, and the direction in which it wants it (0 where it does not)."""
        ...

    def state_of(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> dict[str, Array]:
        """The arrays of a parameter's state, written in place."""
        ...

    def compute_dtype(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """The dtype of the update of a parameter."""
        ...

    def hyper_values(self, t: int) -> dict[str, float]:
        """Scalars of step `t`."""
        ...

    def steps_of(self, name: str) -> int:
        """How many steps a parameter has had."""
        ...

    def advance(self, names: Iterable[str]) -> None:
        """Count a step."""
        ...

    def trace_gradients(self, b: Builder, gradients: Mapping[str, Node]) -> tuple[dict[str, Node], Node | None]:
        """All gradients as `trace` takes them, and a Bool scalar, whether anything is updated; None: always."""
        ...

    def trace(
        self, b: Builder, name: str, param: Node, grad: Node, slots: Mapping[str, Node], hyper: Mapping[str, Node]
    ) -> tuple[Node, dict[str, Node]]:
        """The update as nodes."""
        ...


@dataclass(frozen=True, slots=True)
class Scalars:
    """The scalars of parameters that have had equally many steps and are updated in one dtype.

    Attributes:
        leader: One of the parameters; all have its number of steps.
        dtype: The dtype.
        arrays: Resident scalars by name, written before each step.
    """

    leader: str
    dtype: np.dtype[Any]
    arrays: Mapping[str, Array]

    def write(self, values: Mapping[str, float]) -> None:
        """Set all scalars."""
        for name, array in self.arrays.items():
            array[()] = values[name]


@dataclass(frozen=True, slots=True)
class StepGraph:
    """The graph of a step and what belongs to it.

    Attributes:
        graph: Its only output that leaves is the loss.
        in_place: The input that each further output overwrites.
        resident: Arrays of all params of the graph: parameters, state, scalars.
        scalars: What to write before each step.
        applied: 1 or 0 after a step, whether it changed anything; None where every step does.
    """

    graph: Graph
    in_place: Mapping[str, str]
    resident: Mapping[str, Array]
    scalars: tuple[Scalars, ...]
    applied: Array | None = None


def build_step(
    graph: Graph,
    params: Mapping[str, Array],
    names: Sequence[str],
    opt: TracedOptimizer,
    max_grad_norm: float,
    state: StepState,
    *,
    quantizer: NamedQuantizer | None = None,
    completes: bool = True,
) -> StepGraph:
    """The graph of a training step.

    Args:
        graph: The forward graph, the loss first.
        params: Resident arrays of all its params; those of `names` are to be written in place.
        names: The params to train.
        opt: The optimizer; its state arrays are to be written in place.
        max_grad_norm: Greatest norm of all gradients together; 0 or less clips nothing.
        state: What else is to be written in place.
        quantizer: Rounds parameters; the gradients are those at the rounded ones, the update is that of the exact ones.
        completes: Whether the step ends with an update, or only adds its gradients to the sums of `state`.

    Raises:
        RlxTransformError: The loss is not one element or a param has no derivative.
    """
    forward = gradient_graph(graph, names, state)
    b = Builder()
    env, inputs = replay_inputs(b, forward)
    update = _Update(b, opt, inputs, dict(params))
    if quantizer is not None:
        update.rounded = quantizer.nodes(b, update.nodes)
        env |= {e.node: update.rounded[e.name] for e in forward.params if e.name in update.rounded}
    replay(b, forward, env)
    loss = forward.outputs[0]
    gradients = [env[o.node] for o in forward.outputs[1 : 1 + len(names)]]
    scale = None
    if state.scale is not None:
        scale = inputs[-1].node
        update.resident[inputs[-1].name] = state.loss_scale
    written: Written = []
    with b.at(Origin(via=("trainer",))):
        if scale is not None:
            gradients = unscaled(b, gradients, scale)
        if state.accumulate > 1:
            own = dict(zip(names, gradients, strict=True))
            gradients, written = gathered(b, graph, own, state, update.declare, completes)
        if completes:
            written += _completed(update, graph, names, gradients, max_grad_norm, state, scale)
    counts = forward.outputs[1 + len(names) :] if state.metrics else ()
    for array, output in zip(state.counts, counts, strict=True):
        written.append((update.declare(output.name, array)[0], env[output.node]))
    # A bound call gives a number only of F32 or F64.
    outputs = [GraphOutput(loss.name, emit.cast(b, env[loss.node], wide(loss.node.dtype)))]
    for target, node in written:
        title = unique_name(f"new {target}", [o.name for o in outputs])
        outputs.append(GraphOutput(title, node))
        update.in_place[title] = target
    finished = b.finish(f"{graph.name} step", update.inputs, outputs)
    return StepGraph(finished, update.in_place, update.resident, tuple(update.scalars.values()), update.applied)


def gradient_graph(graph: Graph, names: Sequence[str], state: StepState) -> Graph:
    """Loss, gradients and then what the metrics count; the param by which the loss is scaled is the last input, where it is.

    Raises:
        RlxTransformError: As `build_step`.
    """
    found = value_and_grad(graph, names, scale=None if state.scale is None else "loss scale")
    if not state.metrics:
        return found
    from rlxlang.training.metrics import counting

    found = counting(found, state.metrics, 1 + len(names))
    state.make_counts(found.outputs[1 + len(names) :])
    return found


def _completed(
    update: _Update,
    graph: Graph,
    names: Sequence[str],
    gradients: Sequence[Node],
    max_grad_norm: float,
    state: StepState,
    scale: Node | None,
) -> Written:
    """The end of a step that makes an update: new values by the name of the input they overwrite."""
    b = update.b
    finite: Node | None = None
    written: Written = []
    if scale is not None:
        finite, written = judged(b, gradients, state, scale, update.declare)
    if max_grad_norm > 0:
        gradients = clipped(b, gradients, max_grad_norm)
    own, applied = update.opt.trace_gradients(b, dict(zip(names, gradients, strict=True)))
    if applied is not None:
        written.append(update.told(applied))
    estimates = update.estimates(graph, names)
    for name, gradient in own.items():
        new = update.of(name, gradient, estimates.get(name))
        if applied is not None:
            new = [(target, chosen(b, applied, node, update.nodes[target])) for target, node in new]
        if state.averages:
            new.append(averaged(b, name, new[0][1], state, update.declare))
        if finite is not None:
            new = [(target, chosen(b, finite, node, update.nodes[target])) for target, node in new]
        written += new
    return written


class _Update:
    """Adds state and scalars to the inputs of a step, and the updates to its nodes."""

    def __init__(self, b: Builder, opt: TracedOptimizer, inputs: list[GraphInput], resident: dict[str, Array]) -> None:
        self.b, self.opt, self.inputs, self.resident = b, opt, inputs, resident
        self.nodes = {entry.name: entry.node for entry in inputs}
        self.rounded: dict[str, Node] = {}  # at which derivatives are taken
        self.in_place: dict[str, str] = {}
        self.scalars: dict[tuple[int, str], Scalars] = {}
        self._scalar_nodes: dict[tuple[int, str], dict[str, Node]] = {}
        self.applied: Array | None = None

    def told(self, applied: Node) -> tuple[str, Node]:
        """Lets the step say whether it changed anything."""
        self.applied = aligned_zeros((), np.dtype(np.float32))
        target, _ = self.declare("optimizer/applied", self.applied)
        return target, emit.cast(self.b, applied, F32)

    def estimates(self, graph: Graph, names: Sequence[str]) -> dict[str, Node]:
        """Estimates of curvature by parameter, where the optimizer follows it."""
        if not self.opt.needs_hessian:
            return {}
        from rlxlang.hessian_estimates import estimate_nodes

        at = {**self.nodes, **self.rounded}
        return estimate_nodes(self.b, graph, at, self.opt, {name: self._scalars_of(name) for name in names})

    def of(self, name: str, gradient: Node, estimate: Node | None = None) -> list[tuple[str, Node]]:
        """New values of a parameter, which is first, and of its slots by the name of the input they overwrite."""
        array = self.resident[name]
        slots: dict[str, Node] = {}
        targets: dict[str, str] = {}
        for slot, state in self.opt.state_of(name, array.shape, array.dtype).items():
            targets[slot], slots[slot] = self.declare(f"{slot}/{name}", state)
        scalars = self._scalars_of(name)
        given = slots if estimate is None else {**slots, "estimate": estimate}
        new, changed = self.opt.trace(self.b, name, self.nodes[name], gradient, given, scalars)
        return [(name, new), *((targets[slot], node) for slot, node in changed.items())]

    def _scalars_of(self, name: str) -> dict[str, Node]:
        dtype = self.opt.compute_dtype(self.resident[name].dtype)
        key = self.opt.steps_of(name), dtype.name
        if key not in self.scalars:
            arrays, nodes = {}, {}
            for scalar in self.opt.hyper_values(1):
                arrays[scalar] = aligned_zeros((), dtype)
                _, nodes[scalar] = self.declare(f"optimizer/{scalar}", arrays[scalar])
            self.scalars[key] = Scalars(name, dtype, arrays)
            self._scalar_nodes[key] = nodes
        return self._scalar_nodes[key]

    def declare(self, title: str, array: Array) -> tuple[str, Node]:
        """A param of the graph for a resident array; its name and node."""
        dtype = from_numpy(array.dtype)
        assert dtype is not None
        name = unique_name(title, [e.name for e in self.inputs])
        node = self.b.input(name, dtype, array.shape, "param")
        self.inputs.append(declare(node))
        self.resident[name] = array
        self.nodes[name] = node
        return name, node


def clipped(b: Builder, gradients: Sequence[Node], max_norm: float) -> list[Node]:
    """Gradients scaled so that the norm of all of them together is at most `max_norm`, squares summed in F32.

    Source:
        Pascanu, Mikolov and Bengio 2013, "On the difficulty of training recurrent neural networks".
    """
    total: Node | None = None
    for gradient in gradients:
        wide = emit.cast(b, gradient, F32)
        squares = emit.reduce_sum(b, emit.square(b, wide), range(len(wide.shape)))
        total = squares if total is None else emit.add(b, total, squares)
    if total is None:
        return []
    norm = emit.unary(b, "sqrt", total)
    limit = b.full_like(norm, max_norm)
    factor = emit.select(b, emit.compare(b, "gt", norm, limit), emit.div(b, limit, norm), b.full_like(norm, 1))
    return [emit.mul(b, g, emit.broadcast_to(b, emit.cast(b, factor, g.dtype), g.shape)) for g in gradients]


# --------------------------------------------------------------------------------------------- compiled


def compile_step(step: StepGraph, device: Device | None, name: str) -> tuple[Callable[..., float], Device]:
    """A function of the inputs and the seed by position that performs a step and returns the loss, and the device it runs on.

    Args:
        step: The step.
        device: Where to run; the fastest device that can, when left out.
        name: Name of the function.

    Raises:
        RlxBackendError: The device is not there or cannot run the graph.
    """
    if device is not None:
        return _compile(step, device, name), device
    refusals = []
    for candidate in candidates():
        try:
            return _compile(step, candidate, name), candidate
        except RlxBackendError as problem:
            refusals.append(f"{candidate}: {problem.diagnostics[0].message}")
    raise RlxBackendError(f"no device can train `{step.graph.name}`", code="E0702", notes=refusals)


def _compile(step: StepGraph, device: Device, name: str) -> Callable[..., float]:
    signature = Signature(step.graph)

    def prepare(values: tuple[object, ...]) -> tuple[list[Array], dict[str, int]]:
        return signature.prepare(values, step.resident)

    if device.kind == "reference":
        return _interpreted(step, prepare)
    from rlxlang.lower import lower

    backend = backend_of(device)
    threads = thread_count()
    lowered = lower(step.graph, threads=threads, in_place=step.in_place)
    aliases = ";".join(f"{output}={target}" for output, target in step.in_place.items())
    executable = backend.compile(lowered.program, graph_key(step.graph, str(device), str(threads), aliases))
    fixed = {lowered.buffer_of[key]: array for key, array in step.resident.items()}
    call: Any = executable.bind(fixed, prepare, "float", name)
    return call  # type: ignore[no-any-return]


def _interpreted(
    step: StepGraph, prepare: Callable[[tuple[object, ...]], tuple[list[Array], dict[str, int]]]
) -> Callable[..., float]:
    """The step op by op in NumPy."""
    from rlxlang.interp import evaluate

    feeds = [e.name for e in step.graph.arguments]

    def call(*values: object) -> float:
        arrays, sizes = prepare(values)
        loss, *new = evaluate(step.graph, {**step.resident, **dict(zip(feeds, arrays, strict=True))}, sizes)
        result = float(np.reshape(loss, ()))
        fresh = [np.array(array) for array in new]  # a result may be a view of what is overwritten next
        for output, array in zip(step.graph.outputs[1:], fresh, strict=True):
            step.resident[step.in_place[output.name]][...] = array
        return result

    return call
