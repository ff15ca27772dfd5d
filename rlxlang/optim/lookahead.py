"""Slow weights that follow those of another optimizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rlxlang.diagnostics import RlxTypeError
from rlxlang.ir import Builder, Node
from rlxlang.ops import emit
from rlxlang.optim.arrays import HOST, Arithmetic, Value
from rlxlang.optim.base import Array, Optimizer, OptItem
from rlxlang.optim.groups import require_count, require_not_negative
from rlxlang.optim.traced import GRAPH, Traced
from rlxlang.optim.wrapper import Wrapper
from rlxlang.resident import aligned_zeros
from rlxlang.types import from_numpy

_OWN = ("slow", "since")


class Lookahead(Wrapper):
    """Every `k` steps of an optimizer the slow weights φ go a part of the way to where it is, `φ += α·(θ - φ)`, and `θ = φ`.

    φ starts as the parameter before its first step. Besides the state of the optimizer inside there are `slow`, which is φ, and the
    scalar `since`: 0 before the first step, then 1 and the number of steps since both were the same.

    Args:
        inner: The optimizer that makes the steps, built in or of one's own.
        k: Steps between two moves of the slow weights, 1 or more.
        alpha: α, not negative; 1 changes nothing.

    Raises:
        RlxValueError: A setting is out of its range.
        RlxTypeError: `inner` is no optimizer, or one around another: a `Chain` goes around the `Lookahead`.

    Source:
        Zhang, Lucas, Hinton and Ba 2019, "Lookahead optimizer: k steps forward, 1 step back".
    """

    def __init__(self, inner: Optimizer, k: int = 5, alpha: float = 0.5) -> None:
        super().__init__(inner)
        if isinstance(inner, Wrapper):
            raise RlxTypeError(
                f"`Lookahead` goes around an optimizer that makes steps itself, {type(inner).__name__} is given",
                helps=("write `Chain(…, Lookahead(AdamW()))`, the chain outside",),
            )
        require_count("Lookahead", k=k)
        require_not_negative("Lookahead", alpha=alpha)
        self.k, self.alpha = int(k), float(alpha)
        self._own: dict[str, dict[str, Array]] = {}

    def _mixed(
        self, x: Arithmetic, slow: Value, since: Value, before: Value, after: Value
    ) -> tuple[Value, dict[str, Value]]:
        """The parameter and the state after a step that led from `before` to `after`."""
        slow, since = x.where_positive(since, slow, before), x.maximum(since, 1.0)
        is_due = since - (self.k - 0.5)
        mixed = slow + self.alpha * (after - slow)
        state = {
            "slow": x.where_positive(is_due, mixed, slow),
            "since": x.where_positive(-is_due, since + 1.0, 1.0),
        }
        return x.where_positive(is_due, mixed, after), state

    # ----------------------------------------------------------------------------------------- the host form

    def step(self, name: str, shape: tuple[int, ...], param: Array, grad: Array) -> None:
        """A step of the optimizer inside and, every `k` steps, of the slow weights."""
        self.step_batch([(name, shape, param, grad)])

    def step_batch(self, items: Sequence[OptItem]) -> None:
        """See `Optimizer.step_batch`."""
        moving = [item for item in items if not self.inner.is_frozen(item[0])]
        states = {n: self._own_state(n, tuple(shape), np.asarray(param).dtype) for n, shape, param, _ in moving}
        before = {n: np.array(param) for n, _, param, _ in moving if not states[n]["since"]}
        self.inner.step_batch(moving)
        for name, shape, param, _ in moving:
            own = states[name]
            kind = own["slow"].dtype
            start = before[name].reshape(shape).astype(kind) if name in before else own["slow"]
            new, changed = self._mixed(
                HOST, own["slow"], own["since"], start, param.reshape(shape).astype(kind, copy=False)
            )
            param[...] = np.reshape(new, param.shape)
            for slot, value in changed.items():
                own[slot][...] = value

    # ----------------------------------------------------------------------------------------- state

    def _own_state(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> dict[str, Array]:
        if name not in self._own:
            kind = self.compute_dtype(dtype)
            self._own[name] = {"slow": aligned_zeros(shape, kind), "since": aligned_zeros((), kind)}
        return self._own[name]

    def state_of(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> dict[str, Array]:
        """The state of the optimizer inside, `slow` and `since`."""
        return {**super().state_of(name, shape, dtype), **self._own_state(name, shape, dtype)}

    def state_dict(self) -> dict[str, Any] | None:
        """A copy of both states under the name `Lookahead(…)`; None when the optimizer inside has none."""
        state = super().state_dict()
        if state is None:
            return None
        own = {f"{slot}/{name}": np.array(a) for name, arrays in self._own.items() for slot, a in arrays.items()}
        return {
            **state,
            "algorithm": f"Lookahead({state['algorithm']})",
            "buffers": dict(sorted({**state["buffers"], **own}.items())),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> bool:
        """Take over both states; False, and nothing changes, when they belong to other algorithms or shapes."""
        name, buffers = state.get("algorithm"), state.get("buffers")
        if not isinstance(name, str) or not (name.startswith("Lookahead(") and name.endswith(")")):
            return False
        if not isinstance(buffers, Mapping):
            return False
        found: dict[str, dict[str, Array]] = {}
        inner: dict[str, Any] = {}
        for key, value in buffers.items():
            slot, _, param = str(key).partition("/")
            if slot in _OWN:
                found.setdefault(param, {})[slot] = np.asarray(value)
            else:
                inner[key] = value
        if not all(self._fits(param, arrays) for param, arrays in found.items()):
            return False
        within = {**state, "algorithm": name.removeprefix("Lookahead(")[:-1], "buffers": inner}
        if not self.inner.load_state_dict(within):
            return False
        for param, arrays in found.items():
            if param not in self._own:
                self._own[param] = {slot: aligned_zeros(a.shape, a.dtype) for slot, a in arrays.items()}
        for param, own in self._own.items():
            for slot, array in own.items():
                array[...] = found[param][slot] if param in found else 0
        return True

    def _fits(self, param: str, arrays: Mapping[str, Array]) -> bool:
        if set(arrays) != set(_OWN) or any(a.dtype.kind != "f" for a in arrays.values()) or arrays["since"].shape:
            return False
        present = self._own.get(param)
        return present is None or present["slow"].shape == arrays["slow"].shape

    # ----------------------------------------------------------------------------------------- the compiled form

    @property
    def is_traceable(self) -> bool:
        """Whether a `Trainer` may compile the update: the optimizer can be traced, and this is no subclass."""
        return type(self) is Lookahead and super().is_traceable

    def trace(
        self, b: Builder, name: str, param: Node, grad: Node, slots: Mapping[str, Node], hyper: Mapping[str, Node]
    ) -> tuple[Node, dict[str, Node]]:
        """See `Algorithm.trace`."""
        inner = {slot: node for slot, node in slots.items() if slot not in _OWN}
        after, changed = super().trace(b, name, param, grad, inner, hyper)
        dtype = from_numpy(self.compute_dtype(param.dtype.numpy))
        assert dtype is not None
        own = [Traced(b, emit.cast(b, node, dtype)) for node in (slots["slow"], slots["since"], param, after)]
        new, state = self._mixed(GRAPH, *own)
        updated = {slot: emit.cast(b, value.node, slots[slot].dtype) for slot, value in state.items()}
        return emit.cast(b, new.node, param.dtype), {**changed, **updated}
