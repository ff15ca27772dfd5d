"""Optimizers: how parameters follow their gradients (layer 9)."""

from __future__ import annotations

from rlxlang.optim.adamw import AdamW
from rlxlang.optim.algorithm import Algorithm
from rlxlang.optim.base import Optimizer, OptItem
from rlxlang.optim.clipping import clip_by_global_norm, global_grad_clip_scale, l2_norm
from rlxlang.optim.sgd import Sgd

__all__ = [
    "AdamW",
    "Algorithm",
    "OptItem",
    "Optimizer",
    "Sgd",
    "clip_by_global_norm",
    "global_grad_clip_scale",
    "l2_norm",
]
