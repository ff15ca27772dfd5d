"""Calls: fns of the text, ops by function and method form, `dim`, and what has no value in this version."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlxlang.diagnostics import Span, did_you_mean
from rlxlang.frontend import ast, statics
from rlxlang.frontend.context import Context
from rlxlang.frontend.derivatives import gradient
from rlxlang.frontend.postorder import unwrapped
from rlxlang.frontend.values import POISON, ListValue, Poison, describe, is_number
from rlxlang.ir import SURFACES, MaskKind, Node, Surface
from rlxlang.ops import METHODS
from rlxlang.types import DTYPES, Dim, TypeProblem

Value = Callable[[Any], Any]

# Ops that accept integers encoded as floats, with the name of that argument.
_FLOAT_ENCODED = {
    "embed": "ids", "take": "indices", "index_select": "indices", "softmax_cross_entropy": "labels",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Arguments:
    """Evaluated arguments with the places where they stand."""

    positional: tuple[Any, ...]
    named: Mapping[str, Any]
    positional_spans: tuple[Span, ...]
    named_spans: Mapping[str, Span]
    span: Span

    def place(self, key: str, names: Sequence[str]) -> Span:
        """Where the argument for parameter `key` stands; the whole call when it is not given."""
        if key in self.named_spans:
            return self.named_spans[key]
        position = names.index(key) if key in names else len(self.positional_spans)
        return self.positional_spans[position] if position < len(self.positional_spans) else self.span


CallFunction = Callable[[str, Arguments], Any]


class Calls:
    """Evaluates calls whose arguments have been evaluated.

    Args:
        context: The elaboration.
        call_function: Expands a fn of the text.
    """

    def __init__(self, context: Context, call_function: CallFunction) -> None:
        self.context, self.call_function = context, call_function

    # ------------------------------------------------------------------ forms
    def call(self, node: ast.Call, value: Value) -> Any:
        """`f(x)` or `nn::f(x)`."""
        if self._is_grad(node.func.path) and all(a.name is None for a in node.args):
            return gradient(self.context, [a.value for a in node.args], value, node.span)
        given = self._arguments((), node.args, value, node.span)
        if given is None:
            return POISON
        if len(node.func.path) > 1:
            return self._call_path(node, given.positional)
        return self.apply(node.func.path[0], given, method=False)

    def method(self, node: ast.Method, value: Value) -> Any:
        """`x.f(…)`: the receiver is the first argument."""
        if self._is_grad((node.name,)) and all(a.name is None for a in node.args):
            return gradient(self.context, [node.receiver, *(a.value for a in node.args)], value, node.span)
        given = self._arguments((node.receiver,), node.args, value, node.span)
        return POISON if given is None else self.apply(node.name, given, method=True)

    def _is_grad(self, path: Sequence[ast.Name]) -> bool:
        names = [n.text for n in path]
        return names == ["grad"] and "grad" not in self.context.functions and "grad" not in self.context.declined

    def named(self, node: ast.Named, value: Value) -> Any:
        """`dense(x, 4) as fc`: blocks are not built, so only the reason differs."""
        called: Any = unwrapped(node.call)
        if isinstance(called, ast.Call) and called.func.path[0].text in self.context.declined:
            return POISON
        name = called.func.path[-1] if isinstance(called, ast.Call) else getattr(called, "name", None)
        context = self.context
        if name is not None and len(getattr(getattr(called, "func", None), "path", (name,))) == 1:
            if name.text in context.functions or name.text in SURFACES:
                what = "fn" if name.text in context.functions else "op"
                return context.error(
                    "E0114",
                    f"`as` names a call of a block, and `{name.text}` is a{'n' if what == 'op' else ''} {what}",
                    node.span,
                )
            if not context.declines_all:
                return self._unknown(name, method=isinstance(called, ast.Method))
            return POISON
        return self.path(called.func) if isinstance(called, ast.Call) else POISON

    def path(self, node: ast.Ref) -> Any:
        """`DType::F16`, `MaskKind::Causal`, or a module that does not exist."""
        context = self.context
        head, *rest = (n.text for n in node.path)
        if head in context.declined or (context.declines_all and head not in ("DType", "MaskKind")):
            return POISON
        if len(rest) == 1 and head == "DType" and rest[0] in DTYPES:
            return DTYPES[rest[0]]
        if len(rest) == 1 and head == "MaskKind" and rest[0] in ("Causal", "None"):
            return MaskKind(rest[0])
        if head == "MaskKind":
            help_ = did_you_mean(rest[-1], ["Causal", "None", "SlidingWindow"])
            return context.error("E0201", f"unknown mask `{node.text}`", node.span, help_=help_)
        if head == "DType":
            help_ = did_you_mean(rest[-1], DTYPES)
            return context.error("E0208", f"unknown dtype `{node.text}`", node.span, help_=help_)
        help_ = did_you_mean(head, ["DType", "MaskKind"]) or f"bring it in first: `use {head};`"
        return context.error("E0203", f"unknown module `{head}`", node.path[0].span, help_=help_)

    def _call_path(self, node: ast.Call, positional: tuple[Any, ...]) -> Any:
        if node.func.text == "MaskKind::SlidingWindow":
            if len(positional) == 1 and isinstance(positional[0], int) and not isinstance(positional[0], bool):
                if positional[0] < 0:
                    return self.context.error("E0350", "the window of a mask is 0 or more", node.args[0].span)
                return MaskKind("SlidingWindow", positional[0])
            return self.context.error("E0303", "`MaskKind::SlidingWindow` takes one static integer", node.span)
        found = self.path(node.func)
        if isinstance(found, Poison):
            return POISON
        return self.context.error("E0220", f"`{node.func.text}` is a value and takes no arguments", node.span)

    # ------------------------------------------------------------------ arguments
    def _arguments(self, before: Sequence[Any], args: Sequence[ast.Arg], value: Value, span: Span) -> Arguments | None:
        positional = [*before, *(a.value for a in args if a.name is None)]
        named = {a.name.text: a for a in args if a.name is not None}
        values = tuple(value(p) for p in positional)
        by_name = {name: value(a.value) for name, a in named.items()}
        if any(isinstance(v, Poison) for v in (*values, *by_name.values())):
            return None
        spans = {name: a.span for name, a in named.items()}
        return Arguments(values, by_name, tuple(p.span for p in positional), spans, span)

    # ------------------------------------------------------------------ what is called
    def apply(self, name: ast.Name, given: Arguments, *, method: bool) -> Any:
        """Call what a name means: a fn of the text, `dim`, static arithmetic or an op."""
        context, text = self.context, name.text
        if text in context.functions:
            return self.call_function(text, given)
        if text in context.declined:
            return POISON
        every = (*given.positional, *given.named.values())
        if text == "dim":
            return self._dim(given)
        if self._is_static(text, given) and all(is_number(v) for v in every):
            return statics.limited(statics.call(text, given.positional))
        if text == "grad" and text not in SURFACES:
            named = next(iter(given.named_spans.items()))
            return context.error("E0221", f"`grad` has no argument `{named[0]}`: its form is `grad(y, a, …)`", named[1])
        surface = METHODS.get(text) if method else None
        surface = surface or SURFACES.get(text)
        if surface is None or (method and not surface.method):
            return POISON if context.declines_all and surface is None else self._unknown(name, method=method)
        return self._emit(surface, given)

    @staticmethod
    def _is_static(name: str, given: Arguments) -> bool:
        """Whether a function of numbers is computed now; sizes only have a least and greatest now."""
        if name not in statics.STATIC_FUNCTIONS or not given.positional or given.named:
            return False
        sizes = any(isinstance(v, Dim) for v in given.positional)
        floats = any(isinstance(v, float) for v in given.positional)
        return not sizes or (name in ("min", "max", "minimum", "maximum") and not floats)

    def _emit(self, surface: Surface, given: Arguments) -> Any:
        names = [p.name for p in surface.parameters]
        positional = [_plain(v) for v in given.positional]
        try:
            bound = surface.bind(positional, {k: _plain(v) for k, v in given.named.items()})
        except TypeProblem as problem:
            wrong = next((k for k in given.named if k not in names or k in names[: len(positional)]), "")
            span = given.named_spans.get(wrong, given.span) if problem.code in ("E0221", "E0222") else given.span
            return self.context.error(problem.code, problem.message, span, notes=problem.notes, help_=problem.help)
        key = _FLOAT_ENCODED.get(surface.name)
        encoded = None if key is None else bound.get(key)
        if key is not None and isinstance(encoded, Node) and encoded.dtype.is_float:
            self.context.warn(
                "W0907",
                f"`{surface.name}` reads the {encoded.dtype} tensor of {key} as integers",
                given.place(key, names),
                help_=f"declare it with an integer dtype, or write `cast({key}, I32)`",
            )
        result = surface.build(self.context.b, **bound)
        return ListValue(tuple(result)) if isinstance(result, (tuple, list)) else result

    def _unknown(self, name: ast.Name, *, method: bool) -> Poison:
        what = "method" if method else "function"
        known = [*self.context.functions, *SURFACES, "dim", "grad"]
        notes: tuple[str, ...] = ()
        if method and name.text in SURFACES:
            notes = (
                f"`{name.text}` is a function, its first argument is no tensor: `{SURFACES[name.text].signature()}`",
            )
        return self.context.error(
            "E0202", f"unknown {what} `{name.text}`", name.span, notes=notes, help_=did_you_mean(name.text, known)
        )

    def _dim(self, given: Arguments) -> Any:
        context, names = self.context, ("x", "axis")
        values = dict(zip(names, given.positional, strict=False)) | dict(given.named)
        if len(given.positional) > 2 or set(values) != set(names):
            return context.error("E0220", "`dim` takes a tensor and an axis: `dim(x, 0)`", given.span)
        x, axis = values["x"], values["axis"]
        if not isinstance(x, Node):
            place = given.place("x", names)
            return context.error("E0304", f"`dim` takes a tensor, not {describe(x)}", place)
        place = given.place("axis", names)
        if isinstance(axis, bool) or not isinstance(axis, int):
            return context.error("E0303", f"the axis of `dim` is a static integer, not {describe(axis)}", place)
        rank = x.tensor.rank
        if not -rank <= axis < rank:
            return context.error("E0403", f"axis {axis} is out of range for a tensor of rank {rank}", place)
        return x.shape[axis]


def _plain(value: Any) -> Any:
    """An argument as surfaces take it: lists become tuples."""
    return tuple(_plain(v) for v in value.items) if isinstance(value, ListValue) else value
