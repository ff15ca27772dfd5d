"""What surrounds a trainer: checkpoints of runs."""

from __future__ import annotations

from rlxlang.training.checkpoints import Checkpoint

__all__ = ["Checkpoint"]
