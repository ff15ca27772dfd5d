"""Calls: fns and blocks, ops by function and method form, `dim`, and values of modules."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlxlang.diagnostics import Span, did_you_mean
from rlxlang.frontend import ast, habits, statics
from rlxlang.frontend.context import Context
from rlxlang.frontend.derivatives import gradient
from rlxlang.frontend.names import Function, Scope
from rlxlang.frontend.postorder import unwrapped
from rlxlang.frontend.templates import fill
from rlxlang.frontend.values import NONE, POISON, Instance, ListValue, Poison, Unbound, describe, is_number
from rlxlang.ir import REQUIRED, SURFACES, MaskKind, Node, Surface
from rlxlang.ops import METHODS
from rlxlang.resources import stdlib_homes, stdlib_modules
from rlxlang.types import DTYPES, Dim, TypeProblem

Value = Callable[[Any], Any]

# Ops that accept integers encoded as floats, with the name of that argument.
_FLOAT_ENCODED = {
    "embed": "ids", "take": "indices", "index_select": "indices", "softmax_cross_entropy": "labels",
}  # fmt: skip
# Which argument an error is about that does not say so.
_ABOUT = {"E0403": ("axis", "axes"), "E0405": ("dims",)}
_GUILTY = re.compile(r"argument `(\w+)` of `(\w+)`")


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


@dataclass(frozen=True, slots=True)
class InstanceName:
    """The name of a block call within the block around it; `is_template` tells `"h.{i}"` from a fixed name."""

    text: str
    span: Span
    is_template: bool


CallFunction = Callable[[Function, Arguments, InstanceName | None], Any]


class Calls:
    """Evaluates calls whose arguments have been evaluated.

    Args:
        context: The elaboration.
        call_function: Expands a fn or block.
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
            return self._poisoned(node.func.path, method=False)
        if len(node.func.path) > 1:
            return self._call_path(node.func, given)
        return self.apply(node.func.path[0], given, method=False)

    def method(self, node: ast.Method, value: Value) -> Any:
        """`x.f(…)`: the receiver is the first argument."""
        if self._is_grad((node.name,)) and all(a.name is None for a in node.args):
            return gradient(self.context, [node.receiver, *(a.value for a in node.args)], value, node.span)
        given = self._arguments((node.receiver,), node.args, value, node.span)
        if given is None:
            return self._poisoned((node.name,), method=True)
        return self.apply(node.name, given, method=True)

    def _poisoned(self, path: Sequence[ast.Name], *, method: bool) -> Poison:
        """A call with a wrong argument, which has been reported; that nothing has its name is a fault of its own."""
        head, text = self.context.unit, path[0].text
        if len(path) > 1 or head.function(text) is not None or head.declines_all or text in head.declined:
            return POISON
        if text in SURFACES or text in METHODS or text in statics.STATIC_FUNCTIONS or text in ("dim", "grad"):
            return POISON
        return self._unknown(path[0], method=method)

    def _is_grad(self, path: Sequence[ast.Name]) -> bool:
        unit = self.context.unit
        return [n.text for n in path] == ["grad"] and unit.function("grad") is None and "grad" not in unit.declined

    def named(self, node: ast.Named, value: Value, scope: Scope) -> Any:
        """`dense(x, 4) as fc`: the call of a block under a name, by which its parameters can be read from here on."""
        context, called = self.context, unwrapped(node.call)
        path = called.func.path if isinstance(called, ast.Call) else (called.name,)
        function = self._function(path)
        if function is None or function.kind != "block":
            return self._not_a_block(node, called, path)
        before = (called.receiver,) if isinstance(called, ast.Method) else ()
        given = self._arguments(before, called.args, value, called.span)
        text = fill(context, node.name, scope, of_block=True)
        if given is None or text is None:
            return POISON
        name = InstanceName(text, node.name.span, is_template=bool(node.name.placeholders))
        result = self.call_function(function, given, name)
        made = context.instance.children.get(text)
        known = scope.find(text)
        if made is not None and text.isidentifier() and (known is None or isinstance(known.value, (Instance, Unbound))):
            scope.bind(text, made, node.name.span).used = True
        return result

    def _not_a_block(self, node: ast.Named, called: Any, path: tuple[ast.Name, ...]) -> Poison:
        context, unit, head = self.context, self.context.unit, path[0].text
        function = self._function(path)
        if unit.forgives(head):
            return POISON
        is_op = len(path) == 1 and head in SURFACES
        if function is None and not is_op:
            return (
                self._unknown_path(path)
                if len(path) > 1
                else self._unknown(path[0], method=isinstance(called, ast.Method))
            )
        what = "an op" if function is None else "a fn"
        written = "::".join(n.text for n in path)
        help_ = "bind the value with `let` to name it; to name a block inside, write `as` behind the call of that"
        return context.error(
            "E0114", f"`as` names a call of a block, and `{written}` is {what}", node.span, help_=help_
        )

    def _function(self, path: Sequence[ast.Name]) -> Function | None:
        """The fn or block that a name or a path `nn::dense` means."""
        unit = self.context.unit
        if len(path) == 1:
            return unit.function(path[0].text)
        module = unit.modules.get(path[0].text)
        return None if module is None or len(path) > 2 else module.functions.get(path[1].text)

    def path(self, node: ast.Ref) -> Any:
        """`DType::F16`, `MaskKind::Causal`, or a config or const of a module."""
        context = self.context
        head, *rest = (n.text for n in node.path)
        module = context.unit.modules.get(head)
        if module is not None and len(rest) == 1:
            binding = module.values.names.get(rest[0])
            if binding is not None:
                if isinstance(binding.value, Unbound):
                    return context.error("E0201", f"`{node.text}` has no value: {binding.value.reason}", node.span)
                return binding.value
        if module is not None or context.unit.forgives(head):
            return self._unknown_path(node.path)
        if len(rest) == 1 and head == "DType" and rest[0] in DTYPES:
            return DTYPES[rest[0]]
        if len(rest) == 1 and head == "MaskKind" and rest[0] in ("Causal", "None"):
            return MaskKind(rest[0])
        if head == "MaskKind":
            help_ = did_you_mean(rest[-1], ["Causal", "None", "SlidingWindow"])
            return context.error("E0201", f"unknown mask `{node.text}`", node.span, help_=help_)
        if head == "DType":
            help_ = did_you_mean(rest[-1], DTYPES) or f"the dtypes are {', '.join(DTYPES)}"
            return context.error("E0208", f"unknown dtype `{node.text}`", node.span, help_=help_)
        return self._unknown_path(node.path)

    def _unknown_path(self, path: Sequence[ast.Name]) -> Poison:
        """Report a path that leads nowhere."""
        context, head, last = self.context, path[0], path[-1]
        module = context.unit.modules.get(head.text)
        if module is None and context.unit.forgives(head.text) and head.text not in ("DType", "MaskKind"):
            return POISON
        if module is None:
            known = ["DType", "MaskKind", *context.unit.modules, *stdlib_modules()]
            if head.text in stdlib_modules():
                help_ = f"bring it in first: `use {head.text};`"
            elif last.text in SURFACES:
                help_ = f"an op stands alone: `{last.text}(…)`"
            else:
                help_ = did_you_mean(head.text, known) or f'bring it in first: `use "{head.text}.rlx";`'
            return context.error("E0203", f"unknown module `{head.text}`", head.span, help_=help_)
        if module.declines_all:
            return POISON
        names = [*module.functions, *(n for n, b in module.values.names.items() if not isinstance(b.value, Unbound))]
        notes = (
            ()
            if last.text not in module.functions
            else (f"`{last.text}` is a {module.functions[last.text].kind}: call it",)
        )
        help_ = "" if notes else did_you_mean(last.text, names) or f"it has {', '.join(names[:8]) or 'nothing'}"
        message = (
            f"module `{module.name}` has no value `{last.text}`"
            if notes
            else f"module `{module.name}` has no `{last.text}`"
        )
        return context.error("E0204", message, last.span, notes=notes, help_=help_)

    def _call_path(self, func: ast.Ref, given: Arguments) -> Any:
        function = self._function(func.path)
        if function is not None:
            return self.call_function(function, given, None)
        if func.text == "MaskKind::SlidingWindow":
            positional = given.positional
            if len(positional) == 1 and isinstance(positional[0], int) and not isinstance(positional[0], bool):
                if positional[0] < 0:
                    return self.context.error("E0350", "the window of a mask is 0 or more", given.positional_spans[0])
                return MaskKind("SlidingWindow", positional[0])
            return self.context.error("E0303", "`MaskKind::SlidingWindow` takes one static integer", given.span)
        found = self.path(func)
        if isinstance(found, Poison):
            return POISON
        return self.context.error("E0220", f"`{func.text}` is a value and takes no arguments", given.span)

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
        function = context.unit.function(text)
        if function is not None:
            return self.call_function(function, given, None)
        if text in context.unit.declined:
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
            return POISON if context.unit.declines_all and surface is None else self._unknown(name, method=method)
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
        for place, parameter in zip(range(len(positional)), surface.parameters, strict=False):
            if positional[place] is NONE and parameter.default is not REQUIRED:
                positional[place] = parameter.default
        try:
            bound = surface.bind(positional, {k: _plain(v) for k, v in given.named.items() if v is not NONE})
        except TypeProblem as problem:
            wrong = next((k for k in given.named if k not in names or k in names[: len(positional)]), "")
            span = given.named_spans.get(wrong, given.span) if problem.code in ("E0221", "E0222") else given.span
            help_ = habits.option_help(wrong, names) if problem.code == "E0221" else problem.help
            return self.context.error(problem.code, problem.message, span, notes=problem.notes, help_=help_)
        key = _FLOAT_ENCODED.get(surface.name)
        encoded = None if key is None else bound.get(key)
        if key is not None and isinstance(encoded, Node) and encoded.dtype.is_float:
            self.context.warn(
                "W0907",
                f"`{surface.name}` reads the {encoded.dtype} tensor of {key} as integers",
                given.place(key, names),
                help_=f"declare it with an integer dtype, or write `cast({key}, I32)`",
            )
        try:
            result = surface.build(self.context.b, **bound)
        except TypeProblem as problem:
            span = self._guilty(surface, given, problem)
            return self.context.error(problem.code, problem.message, span, notes=problem.notes, help_=problem.help)
        return ListValue(tuple(result)) if isinstance(result, (tuple, list)) else result

    @staticmethod
    def _guilty(surface: Surface, given: Arguments, problem: TypeProblem) -> Span:
        """The argument that a message of an op is about, else the call."""
        names = [p.name for p in surface.parameters]
        named = _GUILTY.match(problem.message)
        if named is not None and named[2] == surface.name:
            return given.place(named[1], names)
        about = [name for name in _ABOUT.get(problem.code, ()) if name in names]
        return given.place(about[0], names) if about and len(given.positional) <= len(names) else given.span

    def _unknown(self, name: ast.Name, *, method: bool) -> Poison:
        what = "method" if method else "function"
        known = [*self.context.unit.function_names(), *SURFACES, "dim", "grad"]
        notes: tuple[str, ...] = ()
        if method and name.text in SURFACES:
            notes = (
                f"`{name.text}` is a function, its first argument is no tensor: `{SURFACES[name.text].signature()}`",
            )
        homes = [title for title, module in self.context.unit.modules.items() if name.text in module.functions]
        library = stdlib_homes(name.text)
        if homes and not method:
            help_ = f"write `{homes[0]}::{name.text}`"
        elif library:
            help_ = f"bring it in first: `use {library[0]}::{{{name.text}}};`"
        else:
            help_ = habits.CALLS.get(name.text) or did_you_mean(name.text, known)
        return self.context.error("E0202", f"unknown {what} `{name.text}`", name.span, notes=notes, help_=help_)

    def _dim(self, given: Arguments) -> Any:
        context, names = self.context, ("x", "axis")
        values = dict(zip(names, given.positional, strict=False)) | dict(given.named)
        if len(given.positional) > 2 or set(values) != set(names):
            return context.error("E0220", "`dim` takes a tensor and an axis: `dim(x, 0)`", given.span)
        x, axis = values["x"], values["axis"]
        if isinstance(x, ListValue) and axis in (0, -1) and not isinstance(axis, bool):
            return len(x.items)
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
