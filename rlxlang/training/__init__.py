"""What surrounds a trainer: checkpoints of runs, the loss scale."""

from __future__ import annotations

from rlxlang.training.checkpoints import Checkpoint
from rlxlang.training.step_state import LossScale

__all__ = ["Checkpoint", "LossScale"]
