"""Transforms of graphs, driven by the op table alone: derivatives in both modes, batching (layer 4)."""

from __future__ import annotations

from rlxlang.ops.control import BODY_TRANSFORMS
from rlxlang.transforms.batching import batch_nodes, body_vmap, move_axis, vmap
from rlxlang.transforms.directional import directional
from rlxlang.transforms.forward import body_jvp, jvp, linearize, push_forward
from rlxlang.transforms.ingraph import gradients
from rlxlang.transforms.remat import remat
from rlxlang.transforms.replay import dependents, expand, replay, replay_inputs, unique_name
from rlxlang.transforms.reverse import body_vjp, grad, hvp, pull_back, value_and_grad, vjp
from rlxlang.transforms.splitting import linear_halves, vjp_halves
from rlxlang.transforms.widening import widened

BODY_TRANSFORMS.jvp, BODY_TRANSFORMS.vjp, BODY_TRANSFORMS.vmap = body_jvp, body_vjp, body_vmap

__all__ = [
    "batch_nodes", "body_jvp", "body_vjp", "body_vmap", "dependents", "directional", "expand", "grad", "gradients", "hvp",
    "jvp", "linear_halves", "linearize", "move_axis", "pull_back", "push_forward", "remat", "replay", "replay_inputs", "unique_name",
    "value_and_grad", "vjp", "vjp_halves", "vmap", "widened",
]  # fmt: skip
