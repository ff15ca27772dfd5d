"""What surrounds a trainer: checkpoints of runs, logs, callbacks, metrics, the loss scale."""

from __future__ import annotations

from rlxlang.training.callbacks import Callback, EpochRecord, History
from rlxlang.training.checkpoints import Checkpoint
from rlxlang.training.evaluation import evaluate
from rlxlang.training.logs import CsvLog, JsonlLog, TensorBoardLog
from rlxlang.training.metrics import Metric
from rlxlang.training.step_state import LossScale

__all__ = [
    "Callback", "Checkpoint", "CsvLog", "EpochRecord", "History", "JsonlLog", "LossScale", "Metric",
    "TensorBoardLog", "evaluate",
]  # fmt: skip
