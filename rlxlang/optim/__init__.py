"""Optimizers: how parameters follow their gradients (layer 9)."""

from __future__ import annotations

from rlxlang.optim.adafactor import Adafactor
from rlxlang.optim.adam import Adam
from rlxlang.optim.adamw import AdamW
from rlxlang.optim.algorithm import Algorithm
from rlxlang.optim.base import Optimizer, OptItem
from rlxlang.optim.chain import Chain
from rlxlang.optim.clipping import clip_by_global_norm, global_grad_clip_scale, l2_norm
from rlxlang.optim.gradient_transforms import (
    ClipByGlobalNorm,
    ClipByValue,
    ClipPerLayer,
    GradientTransform,
    SkipNonFinite,
)
from rlxlang.optim.kron_psgd import KronPsgd
from rlxlang.optim.lamb import Lamb
from rlxlang.optim.lion import Lion
from rlxlang.optim.lookahead import Lookahead
from rlxlang.optim.mars import Mars
from rlxlang.optim.muon import Muon, newton_schulz_orth
from rlxlang.optim.nadamw import NAdamW
from rlxlang.optim.qhadamw import QHAdamW
from rlxlang.optim.radam import RAdam
from rlxlang.optim.sgd import Sgd
from rlxlang.optim.soap import Soap
from rlxlang.optim.sophia import Sophia
from rlxlang.optim.stiefel import Stiefel

__all__ = [
    "Adafactor",
    "Adam",
    "AdamW",
    "Algorithm",
    "Chain",
    "ClipByGlobalNorm",
    "ClipByValue",
    "ClipPerLayer",
    "GradientTransform",
    "KronPsgd",
    "Lamb",
    "Lion",
    "Lookahead",
    "Mars",
    "Muon",
    "NAdamW",
    "OptItem",
    "Optimizer",
    "QHAdamW",
    "RAdam",
    "Sgd",
    "SkipNonFinite",
    "Soap",
    "Sophia",
    "Stiefel",
    "clip_by_global_norm",
    "global_grad_clip_scale",
    "l2_norm",
    "newton_schulz_orth",
]
