"""All rewrite rules, in the order in which they are tried."""

from __future__ import annotations

from rlxlang.ir import Node
from rlxlang.passes.arithmetic import ARITHMETIC
from rlxlang.passes.constants import CONSTANTS
from rlxlang.passes.contraction import CONTRACTION
from rlxlang.passes.movement import MOVEMENT
from rlxlang.passes.rule import Rewriting, Rule


def _operand(r: Rewriting, node: Node) -> Node:
    return node.inputs[0]


RULES: tuple[Rule, ...] = (*ARITHMETIC, *MOVEMENT, *CONTRACTION, *CONSTANTS)

DIFFERENTIATED: tuple[Rule, ...] = (Rule("stop_gradient(x) -> x", "stop_gradient", _operand),)
"""Rules for graphs that nobody differentiates any more."""
