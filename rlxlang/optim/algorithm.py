"""Built-in algorithms: state by name, groups, and one arithmetic for the host form and the compiled one.

An algorithm names its `slots`, its step-dependent scalars (`hyper`) and its `update`, written over `Arithmetic`. From these
come `step` on NumPy arrays and `trace`, which puts the update into a graph for a `Trainer`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np

from rlxlang.diagnostics import RlxShapeError, RlxTypeError, RlxValueError
from rlxlang.ir import Builder, Node
from rlxlang.ops import emit
from rlxlang.optim.arrays import HOST, Arithmetic, Value
from rlxlang.optim.base import Array, Optimizer
from rlxlang.optim.groups import Groups, require_not_negative
from rlxlang.optim.traced import GRAPH, Traced
from rlxlang.resident import aligned_zeros
from rlxlang.types import BOOL, from_numpy

_STATE_DTYPES: dict[str, np.dtype[Any]] = {"f32": np.dtype(np.float32), "f64": np.dtype(np.float64)}


class Algorithm(Optimizer):
    """Base of the built-in optimizers.

    Args:
        lr: Learning rate, finite and not negative.
        weight_decay: λ, not negative.
        groups: `{"match": "*.bias", "lr_scale": 2.0, "weight_decay": 0.0}` and so forth; the first that matches a name counts.
            Parameters of a group with `"frozen": True` stay as they are.
        state_dtype: `"f32"` or `"f64"`; that of the parameter (F32 for half precision) when left out.

    Attributes:
        algorithm: Its name in checkpoints.
        lr: The present learning rate.

    Raises:
        RlxValueError: A setting is out of its range.
    """

    algorithm: ClassVar[str]

    def __init__(
        self,
        lr: float,
        *,
        weight_decay: float = 0.0,
        groups: Iterable[Mapping[str, Any]] = (),
        state_dtype: str | None = None,
    ) -> None:
        require_not_negative(self.algorithm, lr=lr, weight_decay=weight_decay)
        if state_dtype is not None and state_dtype not in _STATE_DTYPES:
            raise RlxValueError(f'`{self.algorithm}`: `state_dtype` is "f32" or "f64", {state_dtype!r} is given')
        self.lr = float(lr)
        self.weight_decay = float(weight_decay)
        self.groups = Groups(groups, self.weight_decay)
        self._state_dtype = None if state_dtype is None else _STATE_DTYPES[state_dtype]
        self._state: dict[str, dict[str, Array]] = {}
        self._steps: dict[str, int] = {}
        self._loaded_step = 0

    # ----------------------------------------------------------------------------------------- what an algorithm says

    @abstractmethod
    def slots(self, name: str, shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
        """Names and shapes of the state of a parameter of this name and shape."""

    @abstractmethod
    def update(
        self,
        x: Arithmetic,
        param: Value,
        grad: Value,
        slots: Mapping[str, Value],
        hyper: Mapping[str, Value],
        weight_decay: float,
    ) -> tuple[Value, dict[str, Value]]:
        """The new parameter and the new slots.

        Args:
            x: Functions beyond the operators.
            param: θ.
            grad: g.
            slots: The state by slot, and the values of `probes`.
            hyper: Scalars by name: `lr`, already scaled for this parameter, and those of `hyper`.
            weight_decay: λ of this parameter.
        """

    def hyper(self, t: int) -> dict[str, float]:
        """Scalars that depend on the step, counted from 1."""
        return {}

    def probes(self, x: Arithmetic, name: str, param: Value, hyper: Mapping[str, Value]) -> dict[str, Value]:
        """What an update needs besides the state and depends on the parameter's name, such as random directions: nothing."""
        return {}

    def fresh(self, slot: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """How a slot starts: zeros."""
        return aligned_zeros(shape, dtype)

    def shapes_from(self, slots: Mapping[str, tuple[int, ...]]) -> list[tuple[int, ...]]:
        """Shapes that the parameter of these slots may have."""
        return list(dict.fromkeys(slots.values()))

    # ----------------------------------------------------------------------------------------- the host form

    def step(self, name: str, shape: tuple[int, ...], param: Array, grad: Array) -> None:
        """Update one parameter in place; see `Optimizer.step`.

        Raises:
            RlxTypeError: The parameter is no float array that can be written to.
            RlxShapeError: Sizes of parameter, gradient and state differ.
        """
        shape = tuple(shape)
        _require_param(name, shape, param)
        gradient = np.asarray(grad)
        if gradient.size != param.size:
            raise RlxShapeError(f"the gradient of `{name}` has {gradient.size} elements, the parameter {param.size}")
        if self.is_frozen(name):
            return
        compute = self.compute_dtype(param.dtype)
        state = self.state_of(name, shape, param.dtype)
        scalars = {key: compute.type(v) for key, v in self.hyper_values(self.steps_of(name) + 1).items()}
        scalars["lr"] = scalars["lr"] * compute.type(self.lr_scale(name))
        theta = param.reshape(shape).astype(compute, copy=False)
        present = {slot: a.astype(compute, copy=False) for slot, a in state.items()}
        with np.errstate(all="ignore"):
            new, slots = self.update(
                HOST,
                theta,
                gradient.reshape(shape).astype(compute, copy=False),
                {**present, **self.probes(HOST, name, theta, scalars)},
                scalars,
                self.groups.weight_decay(name),
            )
            param[...] = np.reshape(new, param.shape)
            for slot, value in slots.items():
                state[slot][...] = value
        self.advance([name])

    def set_lr(self, lr: float) -> None:
        """Change the learning rate.

        Raises:
            RlxValueError: It is negative or not finite.
        """
        require_not_negative(self.algorithm, lr=float(lr))
        self.lr = float(lr)

    def lr_scale(self, name: str) -> float:
        """The factor on the learning rate of one parameter: that of its group."""
        return self.groups.lr_scale(name)

    def is_frozen(self, name: str) -> bool:
        """Whether the group of a parameter says that it stays as it is."""
        return self.groups.is_frozen(name)

    # ----------------------------------------------------------------------------------------- the compiled form

    @property
    def is_traceable(self) -> bool:
        """Whether a `Trainer` may compile the update: no subclass has replaced the host form."""
        own = type(self)
        return all(
            getattr(own, method) is getattr(Algorithm, method) for method in ("step", "step_batch", "end_iteration")
        )

    def compute_dtype(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """The dtype in which a parameter of `dtype` is updated: the wider of it, its state and F32."""
        # No comparison with None: NumPy takes None for float64.
        is_wide = dtype.name == "float64" or (self._state_dtype is not None and self._state_dtype.name == "float64")
        return np.dtype(np.float64 if is_wide else np.float32)

    def hyper_values(self, t: int) -> dict[str, float]:
        """All scalars of step `t`, counted from 1: `lr` and those of the algorithm."""
        return {"lr": self.lr, **self.hyper(t)}

    def trace_direction(self, b: Builder, name: str, param: Node, hyper: Mapping[str, Node]) -> tuple[Node, Node]:
        """A Bool scalar, whether the step wants an estimate of curvature, and the direction in which it wants it; not here."""
        return b.full(False, BOOL), b.zeros_like(param)

    def trace_gradients(self, b: Builder, gradients: Mapping[str, Node]) -> tuple[dict[str, Node], Node | None]:
        """All gradients as `trace` takes them, and a Bool scalar, whether anything is updated; None: always."""
        return dict(gradients), None

    def trace(
        self, b: Builder, name: str, param: Node, grad: Node, slots: Mapping[str, Node], hyper: Mapping[str, Node]
    ) -> tuple[Node, dict[str, Node]]:
        """The update as nodes: the new parameter and the new slots.

        Args:
            b: Where to emit.
            name: Name of the parameter.
            param: The parameter.
            grad: Its gradient.
            slots: Its state by slot, as `state_of` gives it.
            hyper: Scalars of `compute_dtype` by name, `lr` not yet scaled.
        """
        dtype = from_numpy(self.compute_dtype(param.dtype.numpy))
        assert dtype is not None
        scalars = {key: Traced(b, node) for key, node in hyper.items()}
        scale = self.lr_scale(name)
        if scale != 1.0:
            scalars["lr"] = scalars["lr"] * scale
        theta = Traced(b, emit.cast(b, param, dtype))
        present = {slot: Traced(b, emit.cast(b, node, dtype)) for slot, node in slots.items()}
        new, changed = self.update(
            GRAPH,
            theta,
            Traced(b, emit.cast(b, grad, dtype)),
            {**present, **self.probes(GRAPH, name, theta, scalars)},
            scalars,
            self.groups.weight_decay(name),
        )
        updated = {slot: emit.cast(b, value.node, slots[slot].dtype) for slot, value in changed.items()}
        return emit.cast(b, new.node, param.dtype), updated

    # ----------------------------------------------------------------------------------------- state

    def state_of(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> dict[str, Array]:
        """The arrays of a parameter's state, which `step` and compiled steps write in place; made when there are none.

        Raises:
            RlxShapeError: The state belongs to a parameter of another shape.
        """
        wanted = self.slots(name, shape)
        state = self._state.get(name)
        if state is None:
            kind = self._state_dtype or self.compute_dtype(dtype)
            state = self._state[name] = {slot: self.fresh(slot, dims, kind) for slot, dims in wanted.items()}
        for slot, dims in wanted.items():
            if state[slot].shape != dims:
                raise RlxShapeError(
                    f"the state `{slot}` of `{name}` has shape {list(state[slot].shape)}, expected {list(dims)}",
                    helps=("an optimizer keeps its state by name: use a new one for another model",),
                )
        return state

    def steps_of(self, name: str) -> int:
        """How many steps a parameter has had."""
        return self._steps.get(name, self._loaded_step if not self._state.get(name) else 0)

    def advance(self, names: Iterable[str]) -> None:
        """Count a step for each of these parameters."""
        for name in names:
            self._steps[name] = self.steps_of(name) + 1

    @property
    def step_count(self) -> int:
        """The greatest number of steps any parameter has had."""
        return max(self._loaded_step, *self._steps.values(), 0)

    def state_dict(self) -> dict[str, Any]:
        """A copy of the state: `{"algorithm", "step", "buffers": {"slot/param": array}}`, sorted.

        A parameter that has had fewer steps than others has a buffer `t/<param>` with their number.
        """
        step = self.step_count
        buffers = {f"{slot}/{name}": np.array(a) for name, state in self._state.items() for slot, a in state.items()}
        for name in self._state:
            if self._state[name] and self.steps_of(name) != step:
                buffers[f"t/{name}"] = np.array(self.steps_of(name), np.int64)
        return {"algorithm": self.algorithm, "step": step, "buffers": dict(sorted(buffers.items()))}

    def load_state_dict(self, state: Mapping[str, Any]) -> bool:
        """Take over a state; False, and nothing changes, when it belongs to another algorithm or other shapes."""
        parsed = self._parsed(state)
        if parsed is None:
            return False
        for name, present in self._state.items():
            incoming = parsed.get(name, {})
            if incoming and {s: a.shape for s, a in incoming.items()} != {s: a.shape for s, a in present.items()}:
                return False
        step = int(state["step"])
        # Arrays that a trainer holds are written in place, so that it goes on from the loaded state.
        for name, present in self._state.items():
            for slot, array in present.items():
                incoming = parsed.get(name, {})
                array[...] = incoming[slot] if slot in incoming else self.fresh(slot, array.shape, array.dtype)
        for name, incoming in parsed.items():
            if name not in self._state:
                self._state[name] = {}
                for slot, array in incoming.items():
                    own = aligned_zeros(array.shape, self._state_dtype or array.dtype)
                    own[...] = array
                    self._state[name][slot] = own
        self._loaded_step = step
        self._steps = {name: int(state["buffers"].get(f"t/{name}", step)) for name in parsed}
        self._steps.update({name: 0 for name, kept in self._state.items() if kept and name not in parsed})
        return True

    def _parsed(self, state: object) -> dict[str, dict[str, Array]] | None:
        """Arrays of a state by parameter and slot, or None when it is not one of this algorithm."""
        if not isinstance(state, Mapping) or state.get("algorithm") != self.algorithm:
            return None
        buffers, step = state.get("buffers"), state.get("step")
        if not isinstance(buffers, Mapping) or not isinstance(step, (int, np.integer)) or step < 0:
            return None
        found: dict[str, dict[str, Array]] = {}
        for key, value in buffers.items():
            slot, slash, name = str(key).partition("/")
            array = np.asarray(value)
            if not slash or (slot != "t" and array.dtype.kind != "f"):
                return None
            if slot != "t":
                found.setdefault(name, {})[slot] = array
        for name, slots in found.items():
            shapes = {slot: array.shape for slot, array in slots.items()}
            if not any(self.slots(name, shape) == shapes for shape in self.shapes_from(shapes)):
                return None
        return found


def _require_param(name: str, shape: tuple[int, ...], param: object) -> None:
    if not isinstance(param, np.ndarray):
        raise RlxTypeError(f"the parameter `{name}` is a {type(param).__name__}, an optimizer updates arrays of floats")
    own = from_numpy(param.dtype)
    if own is None or not own.is_float:
        raise RlxTypeError(f"the parameter `{name}` is {param.dtype}, an optimizer updates arrays of floats")
    if not param.flags.writeable:
        raise RlxTypeError(
            f"the parameter `{name}` cannot be written to", helps=("optimizers work in place: give a copy",)
        )
    if int(np.prod(shape, dtype=np.int64)) != param.size:
        raise RlxShapeError(f"`{name}` has {param.size} elements, its shape is given as {list(shape)}")
