"""What surrounds a trainer: checkpoints of runs, logs, callbacks, metrics, the loss scale.

Names are imported on first use: a trainer that only makes steps needs few of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlxlang.training.callbacks import Callback, EpochRecord, History
    from rlxlang.training.checkpoints import Checkpoint
    from rlxlang.training.evaluation import evaluate
    from rlxlang.training.logs import CsvLog, JsonlLog, TensorBoardLog
    from rlxlang.training.metrics import Metric
    from rlxlang.training.step_state import LossScale

_MODULES = {
    "Callback": "callbacks", "Checkpoint": "checkpoints", "CsvLog": "logs", "EpochRecord": "callbacks", "History": "callbacks",
    "JsonlLog": "logs", "LossScale": "step_state", "Metric": "metrics", "TensorBoardLog": "logs", "evaluate": "evaluation",
}  # fmt: skip

__all__ = [
    "Callback", "Checkpoint", "CsvLog", "EpochRecord", "History", "JsonlLog", "LossScale", "Metric",
    "TensorBoardLog", "evaluate",
]  # fmt: skip


def __getattr__(name: str) -> object:
    """Import a public name on first use and remember it (PEP 562)."""
    if name not in _MODULES:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    value: object = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List what is loaded and what can be."""
    return sorted({*globals(), *__all__})
