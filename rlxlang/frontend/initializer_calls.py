"""What stands after `=` of a `param`: a call from the module `init`, or a number."""

from __future__ import annotations

from typing import Any

from rlxlang.diagnostics import did_you_mean
from rlxlang.frontend import ast
from rlxlang.frontend.context import Context
from rlxlang.frontend.expressions import Evaluator
from rlxlang.frontend.names import Scope
from rlxlang.frontend.postorder import unwrapped
from rlxlang.frontend.values import Poison, describe, is_number
from rlxlang.ir import Initializer
from rlxlang.types import Dim

# Names of the module `init` with their arguments in order; `init_params` knows what they compute.
INITIALIZERS: dict[str, tuple[str, ...]] = {
    "zeros": (), "ones": (), "constant": ("value",), "full": ("value",), "eye": ("gain",), "identity": ("gain",),
    "uniform": ("low", "high"), "normal": ("mean", "std"), "trunc_normal": ("mean", "std", "low", "high"),
    "truncated_normal": ("mean", "std", "low", "high"), "kaiming_normal": ("gain",), "kaiming_uniform": ("gain",),
    "he_normal": ("gain",), "he_uniform": ("gain",), "glorot_normal": ("gain",),
    "glorot_uniform": ("gain",), "xavier_normal": ("gain",), "xavier_uniform": ("gain",), "lecun_normal": ("gain",),
    "lecun_uniform": ("gain",), "orthogonal": ("gain",),
}  # fmt: skip


class Initializers:
    """Reads initialisers.

    Args:
        context: The elaboration.
        evaluator: For their arguments.
    """

    def __init__(self, context: Context, evaluator: Evaluator) -> None:
        self.context, self.evaluator = context, evaluator

    def read(self, expr: Any, scope: Scope) -> Initializer | None:
        """An initialiser, or None when something is wrong with it, which is reported."""
        node = unwrapped(expr)
        if isinstance(node, ast.Call) and [n.text for n in node.func.path[:-1]] in ([], ["init"]):
            return self._call(node, scope)
        value = self.evaluator.evaluate(expr, scope)
        if isinstance(value, Poison):
            return None
        if is_number(value) and not isinstance(value, Dim):
            return Initializer("constant", (("value", value),))
        self.context.error(
            "E0303", f"an initialiser is a call such as `he_normal()` or a number, not {describe(value)}", expr.span
        )
        return None

    def _call(self, node: ast.Call, scope: Scope) -> Initializer | None:
        name = node.func.path[-1].text
        if name not in INITIALIZERS:
            self.context.error(
                "E0202", f"unknown initialiser `{name}`", node.func.span, help_=did_you_mean(name, INITIALIZERS)
            )
            return None
        parameters = list(INITIALIZERS[name])
        positional = [a for a in node.args if a.name is None]
        if name in ("normal", "trunc_normal", "truncated_normal") and len(positional) == 1 and len(node.args) == 1:
            parameters = ["std"]  # `normal(0.02)` gives the deviation, as one writes it in models
        if name == "uniform" and len(node.args) == 1 and positional:
            parameters = ["high"]  # `uniform(0.1)` is symmetric: -0.1 to 0.1
        if len(positional) > len(parameters):
            self.context.error(
                "E0220",
                f"`{name}` takes at most {len(INITIALIZERS[name])} arguments, {len(positional)} given",
                node.span,
            )
            return None
        args: dict[str, Any] = {}
        for k, arg in enumerate(node.args):
            key = parameters[k] if arg.name is None else arg.name.text
            if key not in INITIALIZERS[name] and key not in parameters:
                self.context.error(
                    "E0221", f"`{name}` has no argument `{key}`", arg.span, help_=did_you_mean(key, INITIALIZERS[name])
                )
                return None
            value = self.evaluator.evaluate(arg.value, scope)
            if isinstance(value, Poison):
                return None
            if not is_number(value) or isinstance(value, Dim):
                self.context.error(
                    "E0303", f"arguments of an initialiser are static numbers, not {describe(value)}", arg.span
                )
                return None
            if key in args:
                self.context.error("E0222", f"argument `{key}` of `{name}` is given twice", arg.span)
                return None
            args[key] = value
        if name == "uniform" and list(args) == ["high"] and parameters == ["high"]:
            args = {"low": -args["high"], "high": args["high"]}
        return Initializer(name, tuple(args.items()))
