"""A training run in one file: everything that decides how it goes on."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from rlxlang.checkpoint import TRAINER_FORMAT, PathLike, bind_weights, read_tensors, write_tensors
from rlxlang.diagnostics import RlxValueError
from rlxlang.graph_key import fingerprint
from rlxlang.training.metrics import Metric
from rlxlang.training.quantizers import NamedQuantizer
from rlxlang.training.step_state import LossScale

if TYPE_CHECKING:
    from rlxlang.func import Func
    from rlxlang.trainer import Trainer

Array: TypeAlias = "np.ndarray[Any, Any]"

_PARTS = ("param", "state", "extra", "best")


@dataclass(frozen=True, slots=True)
class RunState:
    """What a checkpoint holds.

    Attributes:
        path: The file.
        arrays: Arrays by part (`param`, `state` of the optimizer, `extra` of the trainer, `best` parameters so far) and name.
        optimizer: Algorithm and number of steps.
        position: Numbers of steps, epochs and batches, the seed, and the order of the data.
        settings: Those of the trainer.
        model: Fingerprint of the forward graph; empty where it has none.
        facts: Further texts.
    """

    path: str
    arrays: Mapping[str, Mapping[str, Array]]
    optimizer: Mapping[str, Any]
    position: Mapping[str, Any]
    settings: Mapping[str, Any]
    model: str
    facts: Mapping[str, str]

    def bind(self, func: Func) -> Func:
        """The function with the parameters of the run.

        Raises:
            RlxNameError: They are not those of `func`.
        """
        return bind_weights(func, self.arrays["param"])

    def require_model(self, func: Func) -> None:
        """Refuse to go on with another model.

        Raises:
            RlxValueError: The graph of `func` is not the one that was trained.
        """
        own = fingerprint(func.graph)
        if self.model and own and own != self.model:
            notes = ["the numbers are digests of the forward graphs: ops, sizes and constants"]
            trained, given = (_config_text(c) for c in (self.settings.get("configs", {}), _configs_of(func)))
            if trained != given:
                notes.append(f"the run was given {trained}, the function {given}")
            raise RlxValueError(
                f"`{self.path}` is a run of the model {self.model[:16]}, `{func.name}` is the model {own[:16]}",
                notes=notes,
                helps=("to go on with a changed model: `Trainer.resume(…, same_model=False)`",),
            )

    def options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Options of the trainer that goes on: those that are given, and the numbers of the run.

        Raises:
            RlxValueError: The run had a schedule or a quantizer, and none is given.
        """
        for name in ("schedule", "quant"):
            if self.settings.get(name) is True and name not in given:
                raise RlxValueError(
                    f"the run of `{self.path}` has `{name}`, which is a function and not in the file: give it again",
                    helps=(f"`{name}=None` goes on without",),
                )
        names = ("max_grad_norm", "accumulate", "ema", "loss_scale", "quant")
        numbers = {name: self.settings[name] for name in names if name in self.settings}
        if numbers.get("quant") in (True, False):
            del numbers["quant"]
        if numbers.get("loss_scale") is not None:
            numbers["loss_scale"] = LossScale(**numbers["loss_scale"])
        numbers["metrics"] = [Metric(**one) for one in self.settings.get("metrics", [])]
        return {"seed": self.position.get("seed", 0), **numbers, **given}

    def load_optimizer(self, opt: Any) -> None:
        """Put the state into an optimizer.

        Raises:
            RlxValueError: It belongs to another algorithm.
        """
        if not opt.load_state_dict({**self.optimizer, "buffers": dict(self.arrays["state"])}):
            raise RlxValueError(
                f"the checkpoint is one of the optimizer {self.optimizer['algorithm']}, "
                f"which {type(opt).__name__} does not take over"
            )
        lr = self.position["lr"]
        if lr is not None and lr != getattr(opt, "lr", None):
            opt.set_lr(lr)

    def place(self, trainer: Trainer) -> None:
        """Put a new trainer where the run stands.

        Raises:
            RlxValueError: Gradients have been gathered for another number of calls.
        """
        from rlxlang.trainer_fit import Best

        position = self.position
        trainer.step_count, trainer.epoch, trainer.batch = position["step"], position["epoch"], position["batch"]
        trainer.call_count, trainer._waiting = position.get("calls", position["step"]), position.get("waiting", 0)
        trainer.skipped_count = position.get("skipped", 0)
        trainer._epoch_loss, trainer._epoch_rows = position.get("epoch_loss", 0.0), position.get("epoch_rows", 0)
        trainer._order = position.get("order")
        if trainer._waiting and trainer._accumulate != self.settings["accumulate"]:
            raise RlxValueError(
                f"`{self.path}` holds the gradients of {trainer._waiting} of {self.settings['accumulate']} calls, "
                f"which cannot go on as one of {trainer._accumulate}"
            )
        trainer._state.load(self.arrays["extra"])
        counted = position.get("metrics", {})
        for tally in trainer._tallies:
            tally.load(counted.get(tally.metric.name, []))
        if position.get("best") is not None:
            trainer._best = Best(position["best"], self.arrays["best"])


def position_of(trainer: Trainer) -> dict[str, Any]:
    """Where a run stands; see `RunState.place`."""
    return {
        "step": trainer.step_count,
        "calls": trainer.call_count,
        "waiting": trainer._waiting,
        "skipped": trainer.skipped_count,
        "epoch": trainer.epoch,
        "batch": trainer.batch,
        "lr": getattr(trainer.opt, "lr", None),
        "seed": trainer.seed,
        "epoch_loss": trainer._epoch_loss,
        "epoch_rows": trainer._epoch_rows,
        "order": trainer._order,
        "metrics": {tally.metric.name: tally.totals() for tally in trainer._tallies},
        "best": None if trainer._best is None else trainer._best.standing(),
    }


def _settings_of(trainer: Trainer) -> dict[str, Any]:
    """What a trainer was given; functions only as whether they are there."""
    scale = trainer._state.scale
    return {
        "max_grad_norm": trainer.max_grad_norm,
        "accumulate": trainer._accumulate,
        "ema": trainer._state.ema,
        "loss_scale": None if scale is None else asdict(scale),
        "schedule": trainer.schedule is not None,
        "quant": trainer._quantizer.spec
        if isinstance(trainer._quantizer, NamedQuantizer)
        else bool(trainer._quantizer),
        "metrics": [asdict(metric) for metric in trainer._state.metrics],
        "configs": _configs_of(trainer._func),
    }


def _configs_of(func: Func) -> dict[str, Any]:
    """The configs that a function was given, as JSON has them."""
    configs = func.traced.configs
    return {n: v if v is None or isinstance(v, (bool, int, float, str)) else repr(v) for n, v in configs.items()}


def _config_text(configs: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value!r}" for name, value in sorted(configs.items())) or "no configs"


def write_run(trainer: Trainer, path: PathLike, facts: Mapping[str, str] | None = None) -> None:
    """Write a run; see `Trainer.save`.

    Raises:
        RlxRuntimeError: The file cannot be written.
        RlxValueError: The optimizer cannot save its state.
    """
    state = trainer.opt.state_dict()
    if state is None:
        raise RlxValueError(
            f"the optimizer {type(trainer.opt).__name__} has no `state_dict`, so a run cannot be resumed",
            helps=("save the weights alone: `rlxlang.checkpoint.save_weights(trainer.func(), path)`",),
        )
    parts = {
        "param": trainer._params,
        "state": state["buffers"],
        "extra": trainer._state.arrays(trainer._waiting > 0),
        "best": {} if trainer._best is None else trainer._best.params,
    }
    tensors = {f"{part}/{name}": array for part, arrays in parts.items() for name, array in arrays.items()}
    write_tensors(
        path,
        tensors,
        {
            "format": TRAINER_FORMAT,
            "graph": trainer._func.name,
            "model": trainer._model,
            "position": json.dumps(position_of(trainer)),
            "settings": json.dumps(_settings_of(trainer)),
            "optimizer": json.dumps({"algorithm": state["algorithm"], "step": int(state["step"])}),
            "crc32": _checksum(tensors),
            **(facts or {}),
        },
    )


def read_run(path: PathLike) -> RunState:
    """Read a run.

    Raises:
        RlxRuntimeError: The file cannot be read.
        RlxValueError: It is no checkpoint of a trainer, or a damaged one.
    """
    tensors, metadata = read_tensors(path)
    text = os.fspath(path)
    try:
        position, optimizer = json.loads(metadata["position"]), json.loads(metadata["optimizer"])
        settings = json.loads(metadata.get("settings", "{}"))
    except (KeyError, ValueError):
        raise RlxValueError(
            f"`{text}` is no checkpoint of a trainer",
            helps=("for weights alone: `rlxlang.checkpoint.load_weights(func, path)`",),
        ) from None
    if metadata.get("crc32", "") not in ("", _checksum(tensors)):
        raise RlxValueError(f"`{text}` is damaged: its numbers are not those that were written")
    arrays: dict[str, dict[str, Array]] = {part: {} for part in _PARTS}
    for key, array in tensors.items():
        part, _, name = key.partition("/")
        arrays.setdefault(part, {})[name] = array
    return RunState(text, arrays, optimizer, position, settings, metadata.get("model", ""), metadata)


def _checksum(tensors: Mapping[str, Array]) -> str:
    """CRC-32 of names and data, in order of names."""
    total = 0
    for name in sorted(tensors):
        total = zlib.crc32(name.encode(), total)
        total = zlib.crc32(np.ascontiguousarray(tensors[name]).reshape(-1).view(np.uint8).data, total)
    return f"{total:08x}"
