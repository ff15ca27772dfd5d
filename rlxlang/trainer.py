"""`Trainer`: parameters and optimizer state that stay in place, and a step that is one compiled call."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from rlxlang.debugging import is_watching
from rlxlang.device import Device
from rlxlang.diagnostics import RlxRuntimeError, RlxValueError
from rlxlang.func_training import require_optimizer, require_real_params, unfrozen
from rlxlang.graph_key import fingerprint
from rlxlang.inputs import key_array
from rlxlang.ops.threefry import UPDATES, fold_number, key_of_seed
from rlxlang.resident import aligned_copy
from rlxlang.trainer_step import Scalars, build_step, compile_step
from rlxlang.training.numbers import whole_number
from rlxlang.training.step_state import LossScale, StepState, is_hopeless

if TYPE_CHECKING:
    from rlxlang.func import Func
    from rlxlang.func_training import Schedule
    from rlxlang.trainer_fit import Best
    from rlxlang.training.callbacks import CallbackLike, History
    from rlxlang.training.checkpoints import Checkpoint
    from rlxlang.training.data import Data
    from rlxlang.training.metrics import Metric
    from rlxlang.training.quantizers import NamedQuantizer, PythonQuantizer
    from rlxlang.training.tallies import Tally

Array: TypeAlias = "np.ndarray[Any, Any]"
Quant: TypeAlias = "str | Mapping[str, str | None] | Callable[..., Any] | None"
Inputs: TypeAlias = "Mapping[str, object] | Iterable[tuple[str, object]] | None"


class Trainer:
    """Trains the float parameters of a function.

    Parameters and optimizer state are resident and updated in place; `step` runs forward, backward, clipping and update as
    one compiled call. An optimizer that is a Python subclass with its own `step`, and a quantizer that is a Python function, run the
    gradients compiled and the update in Python.

    Args:
        func: The function; its parameters must be bound. It is not changed.
        opt: The optimizer. Its state is that of the training run.
        schedule: The learning rate by step, from 0; that of the optimizer when left out.
        max_grad_norm: Greatest norm of all gradients together; None or 0 clips nothing.
        quant: Rounds the parameters at which gradients are computed; the update is applied to the exact ones (straight through). A name
            such as `"nvfp4"`, `"mx:e4m3"`, `"int8"` or that of a format, for all parameters with two axes or more, or names by patterns
            of parameters (`{"head.*": None, "*": "nvfp4"}`), are compiled into the step, see `rlxlang.training.quantizers`; or a function
            `quant(w)` or `quant(name, shape, w)` of all trained parameters.
        device: Where to run; the fastest device that can, when left out.
        accumulate: Calls of `step` whose gradients make one update, each weighed by its number of rows.
        seed: Of the random numbers that the function draws; every step has its own, told by the seed and the number of the step.
        ema: Decay d of moving averages of the parameters, `average = d·average + (1 − d)·parameter` after each update, in F32 at
            least; they start as the parameters. `func(ema=True)` and `evaluate(…, ema=True)` take them.
        loss_scale: `"dynamic"` for models in half precision, a number for a constant scale, or a `rlx.training.LossScale`; then a step
            whose gradients are not finite changes nothing but the scale. None leaves the loss alone and checks nothing.
        metrics: Figures of the training data, counted in the compiled step before its update: names or `rlx.training.Metric`s. `fit`
            gives those of each epoch, `metrics()` those so far. All but `auc`, which needs all rows at once.

    Attributes:
        device: Where the step runs.
        is_compiled: Whether the update is part of the compiled call.
        step_count: Number of updates so far.
        call_count: Number of calls of `step` so far.
        skipped_count: How many updates were left out because gradients were not finite.
        seed: Of the random numbers.
        epoch: Number of finished epochs of `fit`.
        batch: Batches done of the epoch that is running.

    Raises:
        RlxRuntimeError: E0809 a parameter is not bound.
        RlxTypeError: E0301 a parameter is C64.
        RlxTransformError: E0503 the loss is not one element.
        RlxBackendError: The device is not there or cannot run the step.
    """

    def __init__(
        self,
        func: Func,
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
    ) -> None:
        require_optimizer(opt, "a trainer")
        limit = 0.0 if max_grad_norm is None else float(max_grad_norm)
        if math.isnan(limit):
            raise RlxValueError("`max_grad_norm` is NaN")
        accumulate = whole_number("accumulate", accumulate, 1)
        self.seed, self._accumulate = _seed(seed), accumulate
        func.traced.signature.require_params(func.bindings)
        self._func = func
        self.opt, self.schedule, self.max_grad_norm = opt, schedule, limit
        self.step_count = self.call_count = self.skipped_count = self.epoch = self.batch = 0
        self._waiting = 0  # calls whose gradients wait for an update
        # Of the epoch that is running: the sum of losses by rows, the rows, and the order of the data.
        self._epoch_loss, self._epoch_rows = 0.0, 0
        self._order: dict[str, Any] | None = None
        self._best: Best | None = None
        self._names = unfrozen(func.trainable_names(), opt)
        require_real_params(func.graph, self._names)
        trained = set(self._names)
        self._params = {n: aligned_copy(a) if n in trained else a for n, a in func.bindings.items()}
        self._tallies = _tallies(func, metrics) if metrics else []
        counted = [tally.metric for tally in self._tallies]
        self._state = StepState(self._trained(), accumulate, ema, LossScale.of(loss_scale), counted)
        self._scalars: tuple[Scalars, ...] = ()
        self._quantizer = quantizer = None if quant is None else _quantizer(func, self._names, quant)
        self.is_compiled = bool(getattr(opt, "is_traceable", False)) and (quantizer is None or quantizer.is_compiled)
        self._applied: Array | None = None
        wanted = None if device is None else Device.parse(device)
        self._call: Callable[..., float]
        self._gather: Callable[..., float] | None = None
        if self.is_compiled:
            named = cast("NamedQuantizer | None", quantizer)
            build = partial(build_step, func.graph, self._params, self._names, opt, limit, self._state, quantizer=named)
            step = build()
            self._scalars, self._applied = step.scalars, step.applied
            self._call, self.device = compile_step(step, wanted, f"{func.name}.step")
            if accumulate > 1:
                self._gather, _ = compile_step(build(completes=False), self.device, f"{func.name}.gather")
        else:
            from rlxlang.trainer_host import HostStep

            host = HostStep(func, self._params, self._names, opt, limit, quantizer, wanted, self._state)
            self._call, self._gather, self.device = host.call, host.gather, host.device
        self._signature = func.traced.signature
        self._feeds = self._signature.feed_names

    # ----------------------------------------------------------------------------------------- steps

    def step(self, inputs: Inputs = None, /, **named: object) -> float:
        """One step: forward, backward, clipping and update.

        Args:
            inputs: Arrays by name; names that are no Python words go here.
            named: Arrays by keyword.

        Returns:
            The loss before the update.

        Raises:
            RlxError: As `Func.run`; parameters and state are then unchanged.
        """
        if inputs is None and len(named) == len(self._feeds):
            try:
                values = tuple([named[name] for name in self._feeds])
            except KeyError:
                values = self._signature.inputs_by_position(None, named)
        else:
            values = self._signature.inputs_by_position(inputs, named)
        return self._step(values)

    def _key(self) -> Array:
        """The key of the random numbers of the step to come."""
        return np.array(fold_number(key_of_seed(self.seed), self.call_count, UPDATES), np.uint32)

    def _step(self, values: tuple[object, ...]) -> float:
        """One step with the inputs by position."""
        opt = self.opt
        if self._signature.seed_place is not None:
            values = self._signature.with_seed(values, self._key())
        if is_watching():
            self._show(values)
        if self._waiting + 1 < self._accumulate:
            assert self._gather is not None
            loss = self._gather(*values)
            self._waiting += 1
            self.call_count += 1
            self._count()
            return loss
        if self.schedule is not None:
            opt.set_lr(self.schedule.lr_at(self.step_count))
        for scalars in self._scalars:
            scalars.write(opt.hyper_values(opt.steps_of(scalars.leader) + 1))
        loss = self._call(*values)
        self._waiting = 0
        self.call_count += 1
        self._count()
        if self._state.scale is not None and not self._state.is_finite:
            self._skipped()
            return loss
        if self.is_compiled and (self._applied is None or self._applied):
            opt.advance(self._names)
        self.step_count += 1
        return loss

    def _count(self) -> None:
        """Take in what the call has counted."""
        first = 0
        for tally in self._tallies:
            tally.add(self._state.counts[first : first + tally.parts])
            first += tally.parts

    def metrics(self) -> dict[str, float]:
        """The figures of the option `metrics` over all calls since the epoch of `fit` began, or since `reset_metrics`."""
        return {tally.metric.name: tally.value() for tally in self._tallies}

    def reset_metrics(self) -> None:
        """Begin anew to count for `metrics`."""
        for tally in self._tallies:
            tally.load([])

    def _skipped(self) -> None:
        """Gradients were not finite, so nothing was updated.

        Raises:
            RlxRuntimeError: They are not at the least loss scale either.
        """
        self.skipped_count += 1
        if is_hopeless(self._state):
            raise RlxRuntimeError(
                f"the gradients of `{self._func.name}` are not finite at the least loss scale either",
                helps=("find the op that makes them: `with rlx.debug_nans(): trainer.step(…)`",),
            )

    @property
    def loss_scale(self) -> float:
        """The factor on the loss in the next step; 1 without the option."""
        return float(self._state.loss_scale)

    def _show(self, values: tuple[object, ...]) -> None:
        """Forward and backward op by op, for what is switched on in `rlxlang.debugging`."""
        gradient = self._func.value_and_grad_all().traced
        feeds, sizes = gradient.signature.prepare(values, self._params)
        gradient.compiled(None).run(feeds, self._params, sizes)

    def func(self, *, ema: bool = False, quantized: bool = False) -> Func:
        """A function with a copy of the present parameters.

        Args:
            ema: Of their moving averages instead.
            quantized: Rounded as for the gradients.

        Raises:
            RlxValueError: The trainer keeps no averages, or has no quantizer.
        """
        arrays = self._present(ema, quantized)
        changed = [n for n in arrays if n in self._names or arrays[n] is not self._params[n]]
        copies = {name: np.array(arrays[name], order="C") for name in changed}
        for copy in copies.values():
            copy.flags.writeable = False
        return self._func._rebound(copies)

    def _present(self, ema: bool, quantized: bool) -> dict[str, Array]:
        """All parameters; see `func`."""
        params = self._params
        if ema:
            averages = self._state.averages
            if self._state.ema is None:
                raise RlxValueError("the trainer keeps no averages", helps=("`func.trainer(opt, ema=0.999)`",))
            params = {**params, **{n: a.astype(params[n].dtype) for n, a in averages.items()}}
        if quantized:
            if self._quantizer is None:
                raise RlxValueError("the trainer has no quantizer", helps=('`func.trainer(opt, quant="nvfp4")`',))
            params = {**params, **self._quantizer.arrays(params, self.device)}
        return params

    def _trained(self) -> dict[str, Array]:
        """The resident arrays of the trained parameters."""
        return {name: self._params[name] for name in self._names}

    def param(self, name: str) -> Array:
        """A copy of a present parameter.

        Raises:
            RlxNameError: There is none of that name.
        """
        self._func.param_binding(name)
        return np.array(self._params[name])

    # ----------------------------------------------------------------------------------------- many steps

    def fit(
        self,
        data: Data,
        epochs: int = 1,
        batch_size: int | None = None,
        *,
        val: Data | None = None,
        metrics: Sequence[Metric | str] | None = None,
        shuffle: bool = True,
        seed: int = 0,
        patience: int | None = None,
        callbacks: Sequence[CallbackLike] = (),
        checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
        progress: bool | None = None,
    ) -> History:
        """Train for some epochs; see `rlxlang.trainer_fit.fit`."""
        from rlxlang.trainer_fit import fit

        return fit(
            self,
            data,
            epochs,
            batch_size,
            val=val,
            metrics=metrics,
            shuffle=shuffle,
            seed=seed,
            patience=patience,
            callbacks=callbacks,
            checkpoint=checkpoint,
            progress=progress,
        )

    def evaluate(
        self,
        data: Data,
        batch_size: int | None = None,
        *,
        metrics: Sequence[Metric | str] | None = None,
        ema: bool = False,
        quantized: bool | None = None,
    ) -> dict[str, float]:
        """The mean loss over data and metrics; see `rlx.training.evaluate`.

        Args:
            data: Arrays by name, or batches of them.
            batch_size: Rows of a batch; 1024 when left out.
            metrics: Names of metrics or `rlx.training.Metric`s; the accuracy of a classifier when left out.
            ema: With the averages of the parameters instead of the present ones.
            quantized: With rounded parameters; when left out, where the trainer has a quantizer.
        """
        from rlxlang.training.evaluation import evaluated
        from rlxlang.training.metrics import metrics_of

        params = self._present(ema, self._quantizer is not None if quantized is None else quantized)
        wanted = metrics_of(self._func.graph, metrics)
        return evaluated(self._func, params, self.device, data, batch_size, wanted, self.seed)

    def forward(self, values: tuple[object, ...]) -> list[Array]:
        """All outputs of the function for its inputs by position, with the present parameters and the seed of the trainer."""
        feeds, sizes = self._signature.prepare(self._signature.with_seed(values, self.seed), self._params)
        return self._func.traced.compiled(self.device).run(feeds, self._params, sizes)

    # ----------------------------------------------------------------------------------------- checkpoints

    @cached_property
    def _model(self) -> str:
        """The fingerprint of the forward graph; empty where it has none."""
        return fingerprint(self._func.graph) or ""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything that decides how the run goes on to one file, from which `resume` continues bit for bit.

        The file takes the place of an older one only when it is complete on the disk.

        Raises:
            RlxRuntimeError: The file cannot be written.
            RlxValueError: The optimizer cannot save its state.
        """
        from rlxlang.training.run_state import write_run

        write_run(self, path)

    @classmethod
    def resume(
        cls, path: str | os.PathLike[str], func: Func, opt: Any, *, same_model: bool = True, **options: Any
    ) -> Trainer:
        """A trainer that continues where `save` left off.

        Args:
            path: The file, or a folder of `rlx.training.Checkpoint`, of which the newest good file is taken.
            func: The same function; its parameters need not be bound.
            opt: An optimizer of the same kind and settings; its state is replaced.
            same_model: Whether a function with another graph is an error; its parameters must fit in any case.
            options: Those of `Trainer`. Numbers are those of the file unless they are given; a schedule and a quantizer that
                are functions must be given again (None for none).

        Raises:
            RlxRuntimeError: The file cannot be read.
            RlxValueError: It is no checkpoint of a trainer, of another optimizer or another model, or damaged.
            RlxNameError: Its parameters are not those of `func`.
        """
        from rlxlang.training.checkpoints import read_newest

        run = read_newest(path)
        if same_model:
            run.require_model(func)
        bound = run.bind(func)
        run.load_optimizer(opt)
        trainer = cls(bound, opt, **run.options(options))
        run.place(trainer)
        return trainer

    def __repr__(self) -> str:
        how = "compiled" if self.is_compiled else "update in Python"
        return f"<Trainer {self._func.name} with {type(self.opt).__name__} on {self.device}, {how}, step {self.step_count}>"


def _seed(value: object) -> int:
    """A seed of random numbers.

    Raises:
        RlxTypeError: E0806 it is no integer.
    """
    words = key_array(value)
    return int(words[0]) | int(words[1]) << 32


def _quantizer(func: Func, names: Sequence[str], quant: Quant) -> NamedQuantizer | PythonQuantizer:
    from rlxlang.training.quantizers import quantizer_of

    return quantizer_of(func.graph, names, quant)


def _tallies(func: Func, metrics: Sequence[Metric | str]) -> list[Tally]:
    from rlxlang.training.metrics import step_metrics
    from rlxlang.training.tallies import Tally

    return [Tally(m) for m in step_metrics(func.graph, metrics)]
