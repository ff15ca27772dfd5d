"""Training steps of a `Func` with the optimizer in Python: forward and backward are compiled, the update is the optimizer's."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

import numpy as np

from rlxlang.device import Device
from rlxlang.diagnostics import RlxRuntimeError, RlxTransformError, RlxTypeError, RlxValueError, did_you_mean
from rlxlang.inputs import check_shape, convert, described

if TYPE_CHECKING:
    from rlxlang.compiler import Traced
    from rlxlang.func import Func
    from rlxlang.ir import Graph
    from rlxlang.trainer import Quant, Trainer
    from rlxlang.training.metrics import Metric
    from rlxlang.training.step_state import LossScale

Array: TypeAlias = "np.ndarray[Any, Any]"
Inputs: TypeAlias = "Mapping[str, object] | Iterable[tuple[str, object]] | None"
Step: TypeAlias = "tuple[Func, list[Array]]"
Quantizer: TypeAlias = "Callable[[Array], Array | None]"
NamedQuantizer: TypeAlias = "Callable[[str, tuple[int, ...], Array], Array | None]"


class StepOptimizer(Protocol):
    """What a training step needs of an optimizer (`rlx.optim.Optimizer` has more)."""

    def step(self, name: str, shape: tuple[int, ...], param: Array, grad: Array) -> None:
        """Update one parameter in place."""
        ...

    def step_batch(self, items: Sequence[tuple[str, tuple[int, ...], Array, Array]]) -> None:
        """Update all parameters in place: items are name, shape, parameter, gradient."""
        ...

    def end_iteration(self) -> None:
        """All parameters have been updated."""
        ...

    def set_lr(self, lr: float) -> None:
        """Change the learning rate."""
        ...


class Schedule(Protocol):
    """A learning rate by step."""

    def lr_at(self, step: int) -> float:
        """The learning rate of a step counted from 0."""
        ...


class TrainingMethods:
    """What `Func` inherits: training steps. Each returns the new function and all forward outputs, the loss first."""

    __slots__ = ()

    if TYPE_CHECKING:
        traced: Traced

        @property
        def graph(self) -> Graph: ...  # noqa: D102
        @property
        def bindings(self) -> Mapping[str, Array]: ...  # noqa: D102
        def trainable_names(self) -> list[str]: ...  # noqa: D102
        def value_and_grad(self, wrt: Sequence[str]) -> Func: ...  # noqa: D102
        def _rebound(self, new: Mapping[str, Array]) -> Func: ...

    def train_step(self, opt: StepOptimizer, wrt: Sequence[str], inputs: Inputs = None) -> Step:
        """One step of an optimizer on some bound parameters.

        Args:
            opt: The optimizer; its state changes, this function does not.
            wrt: Names of the parameters to update.
            inputs: Arrays by name; among them a `seed` for each step where random numbers are drawn (the same 0 when left out).

        Returns:
            The function with updated parameters, and all outputs before the update, the loss first.

        Raises:
            RlxTransformError: E0502 a name that is no parameter, E0503 the loss is not one element.
            RlxRuntimeError: E0809 a parameter has no value.
        """
        return self._step(opt, wrt, inputs)

    def train_step_at(
        self, opt: StepOptimizer, schedule: Schedule, step: int, wrt: Sequence[str], inputs: Inputs = None
    ) -> Step:
        """`train_step` at the learning rate that a schedule has for `step`, which is the seed, too, where the inputs have none."""
        return self._step(opt, wrt, inputs, schedule=schedule, step=step)

    def train_step_on(
        self, device: Device | str, opt: StepOptimizer, wrt: Sequence[str], inputs: Inputs = None
    ) -> Step:
        """`train_step` on a given device."""
        return self._step(opt, wrt, inputs, device=device)

    def train_step_at_on(
        self,
        device: Device | str,
        opt: StepOptimizer,
        schedule: Schedule,
        step: int,
        wrt: Sequence[str],
        inputs: Inputs = None,
    ) -> Step:
        """`train_step_at` on a given device."""
        return self._step(opt, wrt, inputs, device=device, schedule=schedule, step=step)

    def train_step_all(self, opt: StepOptimizer, inputs: Inputs = None) -> Step:
        """`train_step` on all float parameters."""
        return self._step(opt, None, inputs)

    def train_step_all_at(self, opt: StepOptimizer, schedule: Schedule, step: int, inputs: Inputs = None) -> Step:
        """`train_step_at` on all float parameters."""
        return self._step(opt, None, inputs, schedule=schedule, step=step)

    def train_step_all_on(self, device: Device | str, opt: StepOptimizer, inputs: Inputs = None) -> Step:
        """`train_step_on` on all float parameters."""
        return self._step(opt, None, inputs, device=device)

    def train_step_all_at_on(
        self, device: Device | str, opt: StepOptimizer, schedule: Schedule, step: int, inputs: Inputs = None
    ) -> Step:
        """`train_step_at_on` on all float parameters."""
        return self._step(opt, None, inputs, device=device, schedule=schedule, step=step)

    def train_step_all_at_on_clipped(
        self,
        device: Device | str,
        opt: StepOptimizer,
        schedule: Schedule,
        step: int,
        max_grad_norm: float,
        inputs: Inputs = None,
    ) -> Step:
        """`train_step_all_at_on` with all gradients scaled down to a common norm of at most `max_grad_norm`.

        A `max_grad_norm` of 0 or less clips nothing.
        """
        return self._step(opt, None, inputs, device=device, schedule=schedule, step=step, max_grad_norm=max_grad_norm)

    def train_step_all_at_on_qat(
        self,
        device: Device | str,
        opt: StepOptimizer,
        schedule: Schedule,
        step: int,
        max_grad_norm: float,
        quant: Quantizer | str | Mapping[str, str | None],
        inputs: Inputs = None,
    ) -> Step:
        """`train_step_all_at_on_clipped` at quantized parameters, the update applied to the exact ones (straight through).

        Args:
            device: Where to run.
            opt: The optimizer.
            schedule: The learning rate by step.
            step: The step, from 0.
            max_grad_norm: Greatest norm of all gradients together; 0 or less clips nothing.
            quant: `quant(w)` changes a copy of a parameter in place, or returns the quantized array; or a name, as of a `Trainer`.
            inputs: Arrays by name.
        """
        if isinstance(quant, (str, Mapping)):
            return self.train_step_all_at_on_qat_with(device, opt, schedule, step, max_grad_norm, quant, inputs)

        def named(name: str, shape: tuple[int, ...], w: Array) -> Array | None:
            return quant(w)

        return self.train_step_all_at_on_qat_with(device, opt, schedule, step, max_grad_norm, named, inputs)

    def train_step_all_at_on_qat_with(
        self,
        device: Device | str,
        opt: StepOptimizer,
        schedule: Schedule,
        step: int,
        max_grad_norm: float,
        quant: NamedQuantizer | str | Mapping[str, str | None],
        inputs: Inputs = None,
    ) -> Step:
        """`train_step_all_at_on_qat` with `quant(name, shape, w)`, for formats whose blocks lie along one axis."""
        return self._step(
            opt,
            None,
            inputs,
            device=device,
            schedule=schedule,
            step=step,
            max_grad_norm=max_grad_norm,
            quant=quant,
        )

    def trainer(
        self,
        opt: Any,
        schedule: Schedule | None = None,
        max_grad_norm: float | None = None,
        quant: Quant = None,
        device: Device | str | None = None,
        accumulate: int = 1,
        seed: int = 0,
        ema: float | None = None,
        loss_scale: LossScale | float | str | None = None,
        metrics: Sequence[Metric | str] = (),
    ) -> Trainer:
        """A `Trainer` that runs forward, backward, clipping and update as one compiled call; see `rlx.Trainer`."""
        from rlxlang.func import Func
        from rlxlang.trainer import Trainer

        assert isinstance(self, Func)
        return Trainer(
            self,
            opt,
            schedule=schedule,
            max_grad_norm=max_grad_norm,
            quant=quant,
            device=device,
            accumulate=accumulate,
            seed=seed,
            ema=ema,
            loss_scale=loss_scale,
            metrics=metrics,
        )

    def _step(
        self,
        opt: StepOptimizer,
        wrt: Sequence[str] | None,
        inputs: Inputs,
        *,
        device: Device | str | None = None,
        schedule: Schedule | None = None,
        step: int = 0,
        max_grad_norm: float = 0.0,
        quant: NamedQuantizer | str | Mapping[str, str | None] | None = None,
    ) -> Step:
        require_optimizer(opt, "a training step")
        names = unfrozen(self._trained_names(wrt), opt)
        require_real_params(self.graph, names)
        wanted = None if device is None else Device.parse(device)
        forward = self.value_and_grad(names)
        if quant is not None:
            forward = forward._rebound(self._quantized(quant, wanted))
        values: tuple[object, ...] = ()
        if getattr(opt, "needs_hessian", False):
            signature = self.traced.signature
            values = signature.by_position(inputs, {}, step)
            inputs = dict(zip((e.name for e in signature.feeds), values, strict=True))
        results = forward._run(wanted, inputs, {}, seed=step)
        loss, gradients, others = results[0], results[1 : 1 + len(names)], results[1 + len(names) :]
        clip_by_global_norm(gradients, max_grad_norm)
        updated = {name: np.array(self.bindings[name], order="C") for name in names}
        if schedule is not None:
            opt.set_lr(schedule.lr_at(step))
        if getattr(opt, "needs_hessian", False):
            from rlxlang.hessian_estimates import observe_hessian

            observe_hessian(opt, cast("Func", self), names, values, forward.bindings, wanted)
        opt.step_batch([(n, updated[n].shape, updated[n], g) for n, g in zip(names, gradients, strict=True)])
        opt.end_iteration()
        for array in updated.values():
            array.flags.writeable = False
        return self._rebound(updated), [loss, *others]

    def _trained_names(self, wrt: Sequence[str] | None) -> list[str]:
        names = self.trainable_names() if wrt is None else wrt
        if isinstance(names, str):
            raise RlxTypeError(f"`wrt` is a list of names, not the string {names!r}", helps=(f'write ["{names}"]',))
        params = [p.name for p in self.graph.params]
        for name in names:
            if name not in params:
                raise RlxTransformError(
                    f"`{self.graph.name}` has no param `{name}` to train",
                    code="E0502",
                    notes=(f"its params are {', '.join(params) or 'none'}",),
                    helps=tuple(filter(None, (did_you_mean(str(name), params),))),
                )
        unbound = [n for n in names if n not in self.bindings]
        if unbound:
            raise RlxRuntimeError(
                f"a training step needs values of {', '.join(f'`{n}`' for n in unbound)}",
                code="E0809",
                helps=("bind them: `func.with_params({…})` or `func.init_params(seed=0)`",),
            )
        return list(names)

    def _quantized(
        self, quant: NamedQuantizer | str | Mapping[str, str | None], device: Device | None
    ) -> dict[str, Array]:
        """Quantized copies of all float params, or of those that a name is for."""
        if isinstance(quant, (str, Mapping)):
            from rlxlang.training import quantizers

            key = "quant", repr(quant)
            traced = self.traced.derive(key, lambda graph: quantizers.NamedQuantizer(graph, quant).graph())
            return quantizers.run_quantizer(traced, self.bindings, device)
        result = {}
        for entry in self.graph.params:
            if entry.name not in self.bindings or not entry.node.dtype.is_differentiable:
                continue
            copy = np.array(self.bindings[entry.name], order="C")
            returned = quant(entry.name, copy.shape, copy)
            if returned is not None:
                copy = convert(returned, entry.node.dtype, f"the quantized {described(entry)}")
                check_shape(entry, copy.shape)
            result[entry.name] = copy
        return result


def require_real_params(graph: Graph, names: Sequence[str]) -> None:
    """Refuse to train complex parameters.

    Raises:
        RlxTypeError: E0301, one is C64.
    """
    for entry in graph.params:
        if entry.name in names and entry.node.dtype.kind == "complex":
            raise RlxTypeError(
                f"the parameter `{entry.name}` is C64, an optimizer updates real numbers",
                code="E0301",
                helps=("train two real parameters and compute with `complex(re, im)`",),
            )


def unfrozen(names: Sequence[str], opt: object) -> list[str]:
    """The parameters that an optimizer does not hold fixed.

    Raises:
        RlxValueError: It holds all of them.
    """
    is_frozen = getattr(opt, "is_frozen", None)
    moving = [name for name in names if is_frozen is None or not is_frozen(name)]
    if names and not moving:
        raise RlxValueError(
            f"all parameters are frozen: {', '.join(names)}",
            helps=("a group with `frozen` holds what its pattern `match` fits; the first group that matches counts",),
        )
    return moving


def require_optimizer(opt: object, what: str) -> None:
    """Refuse what is no optimizer.

    Raises:
        RlxTypeError: It lacks `step_batch`.
    """
    if isinstance(opt, type) or not callable(getattr(opt, "step_batch", None)):
        given = f"the class {opt.__name__}" if isinstance(opt, type) else type(opt).__name__
        raise RlxTypeError(
            f"{what} needs an optimizer, {given} is given",
            helps=("use one of rlx.optim, such as `rlx.optim.AdamW(1e-3)`, or a subclass of rlx.optim.Optimizer",),
        )


def clip_by_global_norm(gradients: Sequence[Array], max_norm: float) -> None:
    """Scale gradients in place so that the norm of all together is at most `max_norm`; 0 or less clips nothing.

    Raises:
        RlxValueError: `max_norm` is NaN.

    Source:
        Pascanu, Mikolov and Bengio 2013, "On the difficulty of training recurrent neural networks".
    """
    if math.isnan(max_norm):
        raise RlxValueError("`max_grad_norm` is NaN")
    if max_norm <= 0:
        return
    total = math.sqrt(sum(_squared_norm(g) for g in gradients))
    if total > max_norm:
        for gradient in gradients:
            gradient *= gradient.dtype.type(max_norm / total)


def _squared_norm(array: Array) -> float:
    wide = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64).ravel()
    return float(np.vdot(wide, wide).real)
