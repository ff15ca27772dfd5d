"""What the words of the language mean, in a line each; and the forms of functions as text."""

from __future__ import annotations

from rlxlang.frontend import ast
from rlxlang.frontend.initializer_calls import INITIALIZERS
from rlxlang.ir import REQUIRED, SURFACES, Parameter, Surface
from rlxlang.ops import METHODS
from rlxlang.tools.lsp.index import Definition

# Keyword -> what it does, and a snippet in the notation of the protocol.
STATEMENTS: dict[str, tuple[str, str]] = {
    "graph": ("names the graph; first statement", 'graph "${1:name}";'),
    "use": ("brings in a module or file", "use ${1:nn};"),
    "config": ("a constant that may be given when loading", "config ${1:name} = ${2:1};"),
    "input": ("fed at each run", "input ${1:x}: [${2:?batch, 4}];"),
    "param": ("a trainable weight", "param ${1:w}: [${2:4, 4}] = ${3:he_normal()};"),
    "const": ("a constant scalar or array", "const ${1:name} = ${2:1.0};"),
    "bind": ("adopts values given from Python", "bind ${1:name};"),
    "let": ("binds a value", "let ${1:name} = $0;"),
    "out": ("outputs, in order", "out ${1:name};"),
    "tap": ("further outputs that take no part in the loss", "tap ${1:name};"),
    "fn": ("a function, expanded where it is called", "fn ${1:name}(${2:x}) {\n  return $0;\n}"),
    "block": (
        "a function with params of its own",
        "block ${1:name}(${2:x}) {\n  param ${3:w}: [${4:4}] = zeros();\n  return $0;\n}",
    ),
    "remat": ("recompute a fn in the backward pass", "remat fn ${1:name}(${2:x}) {\n  return $0;\n}"),
    "vjp": ("a reverse-mode rule for a fn", "vjp ${1:name}(${2:x}, ${3:g}) {\n  return $0;\n}"),
    "jvp": ("a forward-mode rule for a fn", "jvp ${1:name}(${2:x}; ${3:dx}) {\n  return $0;\n}"),
    "repeat": ("a loop that is unrolled", "repeat ${1:i} in ${2:0}..${3:4} {\n  $0\n}"),
    "scan": ("a loop over steps or slices, one node", "scan ${1:h} = ${2:h0} over ${3:x} in ${4:xs} {\n  $0\n}"),
    "loop": ("a while loop", "loop ${1:i} = ${2:0} while ${3:cond} max ${4:100} {\n  $0\n}"),
    "if": ("a choice", "if ${1:p} {\n  $0\n}"),
    "emit": ("stacks a value of every step", "emit ${1:y};"),
    "return": ("the results of a fn or block", "return $0;"),
}  # fmt: skip
JOINING = {
    "for": "how many steps", "over": "slices along the first axis", "in": "what is gone through", "reverse": "from the last to the first",
    "while": "the condition of the loop", "max": "a bound on the steps, which makes the loop differentiable", "by": "the step of the range",
    "div": "division that rounds down", "as": "the name of a block call, or of what is emitted",
    "else": "what happens otherwise",
}  # fmt: skip
AT_TOP = (
    "graph", "use", "config", "input", "param", "const", "bind", "let", "out", "tap", "fn", "block", "remat", "vjp", "jvp",
    "repeat", "scan", "loop", "if",
)  # fmt: skip
IN_FUNCTION = ("let", "repeat", "scan", "loop", "if", "return")
IN_BLOCK = ("param", "const", *IN_FUNCTION)
IN_LOOP = ("let", "repeat", "scan", "loop", "if")
IN_SCAN = (*IN_LOOP, "emit")

DTYPE_DOCS = {
    "F32": "32-bit float", "F64": "64-bit float", "F16": "16-bit float, IEEE", "BF16": "16-bit float with the range of F32",
    "I8": "8-bit integer", "I16": "16-bit integer", "I32": "32-bit integer", "I64": "64-bit integer",
    "U8": "8-bit unsigned integer", "U16": "16-bit unsigned integer", "U32": "32-bit unsigned integer",
    "U64": "64-bit unsigned integer", "Bool": "true or false", "C64": "complex of two 32-bit floats",
}  # fmt: skip
TYPE_DOCS = {
    "int": "a static integer", "float": "a static float; an int is accepted", "bool": "a static `true` or `false`",
    "str": "a static string", "tensor": "a tensor",
}  # fmt: skip
CONSTANT_DOCS = {
    "true": "", "false": "", "inf": "infinity", "nan": "not a number", "pi": "3.14159…",
    "none": "an argument that is not given",
    "Causal": "attention mask: a query sees keys up to its own position", "None": "attention without a mask",
    "SlidingWindow": "attention mask: the last w + 1 keys",
}  # fmt: skip
_KIND_DOCS = {
    "tensor": "a tensor or number", "tensors": "a list of tensors", "axis": "an axis, negative from the end",
    "axes": "an axis or a list of axes", "perm": "an order of axes", "dims": "sizes", "dim": "a size",
    "int": "a static integer", "ints": "static integers", "float": "a static number", "bool": "`true` or `false`",
    "str": "a static string", "dtype": "a dtype", "mask": "an attention mask", "any": "",
}  # fmt: skip
_BUILTINS = {
    "dim": ("dim(x, axis)", "The size of an axis: usable in dims, counts and expressions.", ("x", "axis")),
    "grad": (
        "grad(y, a, …)",
        "The derivative of a scalar by one or more values, inside the graph; differentiable again.",
        ("y", "a"),
    ),
}


def surface_of(name: str, *, method: bool = False) -> Surface | None:
    """The op of a name; a few methods differ from the function of their name."""
    return (METHODS.get(name) if method else None) or SURFACES.get(name)


def op_form(name: str, *, method: bool = False) -> tuple[str, str] | None:
    """Signature and doc of an op or built-in; None when there is none."""
    if name in _BUILTINS:
        return _BUILTINS[name][:2]
    surface = surface_of(name, method=method)
    return None if surface is None else (_renamed(surface, name), surface.doc)


def op_parameters(name: str, *, method: bool = False) -> list[tuple[str, str]]:
    """Parameters of an op as text and what they take; without the first one for a method."""
    if name in _BUILTINS:
        found = [(p, "") for p in _BUILTINS[name][2]]
    else:
        surface = surface_of(name, method=method)
        found = [] if surface is None else [(parameter_text(p), kind_text(p)) for p in surface.parameters]
    return found[1:] if method else found


def op_options(name: str, *, method: bool = False) -> list[Parameter]:
    """Parameters of an op that may be given by name; without the receiver of a method."""
    surface = surface_of(name, method=method)
    if surface is None:
        return []
    return list(surface.parameters[1:] if method else surface.parameters)


def parameter_text(parameter: Parameter) -> str:
    """`axis: -1`."""
    if parameter.default is REQUIRED:
        return parameter.name
    value = parameter.default
    text = str(value).lower() if isinstance(value, bool) else "none" if value is None else str(value)
    return f"{parameter.name}: {text}"


def kind_text(parameter: Parameter) -> str:
    """What a parameter takes."""
    return _KIND_DOCS[parameter.kind]


def _renamed(surface: Surface, name: str) -> str:
    return name + surface.signature().removeprefix(surface.name)


def initializer_form(name: str) -> tuple[str, str]:
    """Signature and doc of an initialiser."""
    return f"{name}({', '.join(INITIALIZERS[name])})", "An initialiser: what `init_params` draws for a param."


def formal_text(formal: ast.Formal) -> str:
    """`n: int = 4`, on one line."""
    return " ".join(formal.span.text.split())


def function_parameters(definition: Definition) -> list[str]:
    """The parameters of a fn or block as text."""
    node = definition.node
    return [formal_text(f) for f in node.formals] if isinstance(node, (ast.Fn, ast.Block)) else []


def function_form(definition: Definition, name: str = "") -> str:
    """`fn f(x, n: int = 4)`."""
    node = definition.node
    remat = "remat " if isinstance(node, (ast.Fn, ast.Block)) and node.remat else ""
    return f"{remat}{definition.kind} {name or definition.name}({', '.join(function_parameters(definition))})"
