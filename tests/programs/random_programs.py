"""Random well-typed programs: every statement form of the language, over two dynamic axes, with values that stay near one.

A program is made towards a goal: `_tensor(kind, shape, depth)` writes an expression of that element kind and shape. What holds
values in check is written into the program (`tanh` around what may grow), so that devices agree to a few units in the last place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Dims = tuple[Any, ...]  # sizes: integers, "?b", "?s"

_UNARY = (
    "tanh",
    "sigmoid",
    "sin",
    "cos",
    "abs",
    "relu",
    "softplus",
    "gelu",
    "silu",
    "erf",
    "atan",
    "square",
    "exp(-abs({}))",
    "(-{})",
    "log1p(abs({}))",
    "sqrt(abs({}) + 0.5)",
)
_BINARY = (
    "{} + {}",
    "{} - {}",
    "{} * {}",
    "maximum({}, {})",
    "{}.minimum({})",
    "{} / (abs({}) + 1.5)",
    "hypot({}, {} + 3.0)",
    "lerp({}, {}, 0.25)",
)
_REDUCE = ("mean", "max", "min", "logsumexp", "sum")
# Divisors are not 0: of two static numbers that is an error.
_INTS = (
    "{} + {}",
    "{} - {}",
    "{} * {}",
    "{} div (abs({}) + 1)",
    "{} % (abs({}) + 1)",
    "maximum({}, {})",
    "minimum({}, {})",
    "rem({}, abs({}) + 1)",
)
_COMPARE = ("==", "!=", "<", "<=", ">", ">=")
_LOGIC = ("{} & {}", "{} | {}", "{} ^ {}")


@dataclass
class _Frame:
    """Names in sight with what they hold: ("f", shape), ("i", shape), ("b", shape)."""

    tensors: dict[str, tuple[str, Dims]] = field(default_factory=dict)


class RandomProgram:
    """One program; `text`, `arrays` (values for its inputs) and `sizes` belong together.

    Args:
        seed: Decides everything.
        statements: How many statements its top level has besides declarations.
    """

    def __init__(self, seed: int, statements: int = 8) -> None:
        self.seed = seed
        self.rng = np.random.default_rng(seed)
        self.sizes = {"?b": int(self.rng.integers(1, 5)), "?s": int(self.rng.integers(1, 7))}
        self.arrays: dict[str, Any] = {}
        self.count = 0
        self.frames = [_Frame()]
        self.lines: list[str] = ['graph "random";']
        self.functions: list[tuple[str, int]] = []  # fns and blocks of elementwise bodies: name, number of tensors
        self.blocks: list[str] = []
        self.families: list[tuple[str, int, Dims]] = []
        self.depth = 0
        self._declare()
        self._define()
        for _ in range(statements):
            self._statement("")
        self._outputs()
        self.text = "\n".join(self.lines) + "\n"

    # ------------------------------------------------------------------ drawing
    def _pick(self, options: Sequence[Any]) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def _chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def _name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def _shape(self, most: int = 3) -> Dims:
        rank = self._pick([0, 1, 1, 2, 2, 2, 3][: most * 2 + 1])
        return tuple(self._pick(["?b", "?s", 1, 2, 3, 3, 4]) for _ in range(rank))

    def _number(self) -> str:
        return self._pick(["0.5", "1", "2", "-0.25", "1.5", "3", "0.1", ".75", "1e-1", "pi"])

    def _size(self, dim: Any) -> int:
        return self.sizes[dim] if isinstance(dim, str) else int(dim)

    # ------------------------------------------------------------------ declarations
    def _bind(self, name: str, kind: str, shape: Dims) -> None:
        self.frames[-1].tensors[name] = (kind, shape)

    def _declare(self) -> None:
        emit = self.lines.append
        emit("config gain = 0.5;")
        emit(f"config steps: int = {self._pick([0, 1, 2, 3])};")
        emit(f"config flag = {self._pick(['true', 'false'])};")
        for k, shape in enumerate([("?b", 3), ("?b", "?s", 2), self._shape(), ()]):
            self._input(f"x{k}", "f", shape)
        self._input("n0", "i", self._pick([("?b",), ("?b", 3), ()]))
        self._input("m0", "b", self._pick([("?b", 3), (3,), ("?s",)]))
        for k in range(2):
            shape = tuple(d for d in self._shape(2) if isinstance(d, int)) or (3,)
            alias = f' @ "p.{k}"' if self._chance(0.3) else ""
            emit(
                f"param w{k}{alias}: [{self._dims(shape)}] = {self._pick(['normal(0.5)', 'ones()', 'uniform(1.0)', 'he_normal()'])};"
            )
            self._bind(f"w{k}", "f", shape)
        if self._chance(0.5):
            count = int(self.rng.integers(1, 4))
            self.families.append(("fam", count, (3,)))
            emit(f"param fam[{count}]: [3] = normal(0.3);")
        rows = [[round(float(v), 2) for v in self.rng.normal(size=3)] for _ in range(2)]
        emit(f"const c0 = {rows} : F32;")
        self._bind("c0", "f", (2, 3))

    def _input(self, name: str, kind: str, shape: Dims) -> None:
        dtype = {"f": "", "i": "I32; ", "b": "Bool; "}[kind]
        self.lines.append(f"input {name}: [{dtype}{self._dims(shape)}];")
        sizes = tuple(self._size(d) for d in shape)
        if kind == "f":
            self.arrays[name] = self.rng.normal(size=sizes).astype(np.float32)
        elif kind == "i":
            self.arrays[name] = self.rng.integers(-4, 5, sizes).astype(np.int32)
        else:
            self.arrays[name] = self.rng.random(sizes) < 0.5
        self._bind(name, kind, shape)

    def _dims(self, shape: Dims) -> str:
        return ", ".join(str(d) for d in shape)

    def _define(self) -> None:
        """A few fns and blocks whose bodies are elementwise, so that any shape may be passed."""
        for _ in range(int(self.rng.integers(1, 3))):
            name, arity = self._name("f"), int(self.rng.integers(1, 3))
            formals = [f"a{k}" for k in range(arity)]
            head = self._pick(["fn", "fn", "remat fn"])
            self.lines.append(f"{head} {name}({', '.join(formals)}, k: float = 0.5) {{")
            self._body_of(formals)
            self.lines.append("}")
            self.functions.append((name, arity))
        if self._chance(0.8):
            name = self._name("blk")
            self.lines.append(f"{self._pick(['block', 'block', 'remat block'])} {name}(x, n: int = 3) {{")
            self.lines.append("  param w: [dim(x, -1), n] = he_normal();")
            if self._chance(0.5):
                self.lines.append("  param b: [n] = zeros();\n  let y = tanh(x @ w + b);")
            else:
                self.lines.append("  let y = sigmoid(x @ w);")
            if self._chance(0.4):
                self.lines.append("  if flag { param g: [n] = ones(); let y = y * g; }")
            self.lines.append("  return y;\n}")
            self.blocks.append(name)

    def _body_of(self, formals: list[str]) -> None:
        self.frames.append(_Frame(dict.fromkeys(formals, ("f", ("same",)))))
        last = formals[0]
        for k in range(int(self.rng.integers(1, 4))):
            left, right = self._pick(formals), self._pick([*formals, "k", "gain", self._number()])
            value = self._pick(_BINARY).format(left, right if right[0] != "-" else f"({right})")
            if self._chance(0.5):
                value = self._applied(self._pick(_UNARY), f"({value})")
            self.lines.append(f"  let t{k} = tanh({value});")
            formals = [*formals, f"t{k}"]
            last = f"t{k}"
        if self._chance(0.5):
            self.lines.append(f"  return {last} * k;")
        self.frames.pop()

    # ------------------------------------------------------------------ expressions
    @staticmethod
    def _applied(function: str, argument: str) -> str:
        return function.format(argument) if "{}" in function else f"{function}({argument})"

    def _known(self, kind: str, shape: Dims) -> list[str]:
        found = []
        for frame in self.frames:
            found += [n for n, (k, s) in frame.tensors.items() if k == kind and s == shape]
        if kind == "f":
            found += [f"{n}[{int(self.rng.integers(c))}]" for n, c, s in self.families if s == shape]
        return found

    def _leaf(self, kind: str, shape: Dims) -> str:
        known = self._known(kind, shape)
        if known and self._chance(0.9):
            return str(self._pick(known))
        if not shape:
            return {
                "f": self._number,
                "i": lambda: str(self.rng.integers(-3, 4)),
                "b": lambda: self._pick(["true", "false"]),
            }[kind]()
        if kind == "f":
            return f"full([{self._dims(shape)}], {self._pick(['0.5', '-1.25', 'gain'])})"
        if kind == "i":
            return f"full([{self._dims(shape)}], {int(self.rng.integers(-2, 3))}, I32)"
        return f"(full([{self._dims(shape)}], {int(self.rng.integers(0, 2))}, I32) == 1)"

    def _tensor(self, kind: str, shape: Dims, depth: int) -> str:
        """An expression of the kind and shape, in parentheses where it needs them."""
        if depth <= 0:
            return self._leaf(kind, shape)
        return {"f": self._floats, "i": self._integers, "b": self._bools}[kind](shape, depth)

    def _broad(self, kind: str, shape: Dims, depth: int) -> str:
        """An operand that broadcasts to the shape."""
        if self._chance(0.6) or not shape:
            return self._tensor(kind, shape, depth)
        if self._chance(0.5):
            return self._tensor(kind, shape[int(self.rng.integers(len(shape))) + 1 :], depth)
        return self._tensor(kind, tuple(1 if self._chance(0.5) else d for d in shape), depth)

    def _floats(self, shape: Dims, depth: int) -> str:
        d = depth - 1
        forms: list[Callable[[], str]] = [
            lambda: self._applied(self._pick(_UNARY), self._tensor("f", shape, d)),
            lambda: f"{self._tensor('f', shape, d)}.{self._pick(['tanh', 'relu', 'sigmoid', 'abs'])}()",
            lambda: "(" + self._pick(_BINARY).format(self._tensor("f", shape, d), self._broad("f", shape, d)) + ")",
            lambda: "(" + self._pick(_BINARY).format(self._tensor("f", shape, d), self._tensor("f", shape, d)) + ")",
            lambda: f"({self._tensor('f', shape, d)} * gain + {self._number()})",
            lambda: f"where({self._broad('b', shape, d)}, {self._tensor('f', shape, d)}, {self._broad('f', shape, d)})",
            lambda: f"cast({self._tensor('i', shape, d)}, F32)",
            lambda: self._reduction(shape, d),
            lambda: f"clamp({self._tensor('f', shape, d)}, -1.5, max: 1.25)",
            lambda: f"stop_gradient({self._tensor('f', shape, d)})",
            lambda: self._leaf("f", shape),
        ]
        if self.functions:
            forms.append(lambda: self._call(shape, d))
        if shape:
            forms += [
                lambda: self._along(shape, d),
                lambda: self._indexed(shape, d),
                lambda: self._sliced(shape, d),
                lambda: self._joined(shape, d),
            ]
        if len(shape) == 2:
            forms.append(lambda: f"{self._tensor('f', shape[::-1], d)}.t()")
        if len(shape) >= 2:
            forms.append(lambda: self._product(shape, d))
            forms.append(lambda: f"layer_norm({self._tensor('f', shape, d)}, eps: 1e-2)")
        if len(shape) >= 2 and self.blocks and isinstance(shape[-1], int):
            forms.append(lambda: self._block(shape, d))
        return str(self._pick(forms)())

    def _reduction(self, shape: Dims, depth: int) -> str:
        """A reduction over one or two new axes."""
        axis = int(self.rng.integers(len(shape) + 1))
        if len(shape) >= 3:
            return f"square({self._tensor('f', shape, depth)})"
        wide = (*shape[:axis], self._pick(["?b", "?s", 2, 3]), *shape[axis:])
        name, inner = self._pick(_REDUCE), self._tensor("f", wide, depth)
        axis = axis - len(wide) if self._chance(0.5) else axis
        form = self._pick(
            [f"{name}({inner}, {axis})", f"{inner}.{name}(axes: [{axis}])", f"{name}({inner}, axes: {axis})"]
        )
        return f"tanh({form})" if name == "sum" else form

    def _along(self, shape: Dims, depth: int) -> str:
        axis = int(self.rng.integers(-len(shape), len(shape)))
        inner = self._tensor("f", shape, depth)
        return str(
            self._pick(
                [f"softmax({inner}, axis: {axis})", f"tanh(cumsum({inner}, {axis}))", f"flip({inner}, {axis})", f"roll({inner}, {axis}, 1)",
                 f"(log_softmax({inner}, {axis}) * 0.2)", f"cummax({inner}, {axis})"]
            )
        )  # fmt: skip

    def _indexed(self, shape: Dims, depth: int) -> str:
        size = self._pick([2, 3, 4])
        inner = self._tensor("f", (size, *shape), depth)
        if self._chance(0.3):
            inner = self._tensor("f", (*shape, size), depth)
            return f"({inner})[..., {int(self.rng.integers(-size, size))}]"
        return f"({inner})[{int(self.rng.integers(-size, size))}]"

    def _sliced(self, shape: Dims, depth: int) -> str:
        if not isinstance(shape[0], int):
            return self._leaf("f", shape)
        inner = self._tensor("f", (shape[0] + 2, *shape[1:]), depth)
        return f"({inner})[{self._pick([f'1..{shape[0] + 1}', f'..{shape[0]}', '2..', f'0..={shape[0] - 1}'])}]"

    def _joined(self, shape: Dims, depth: int) -> str:
        axis = int(self.rng.integers(len(shape)))
        size = shape[axis]
        if not isinstance(size, int):
            return self._leaf("f", shape)
        if size == 1:
            return f"stack([{self._tensor('f', shape[:axis] + shape[axis + 1 :], depth)}], axis: {axis})"
        parts = [(*shape[:axis], p, *shape[axis + 1 :]) for p in (1, size - 1)]
        return f"concat([{', '.join(self._tensor('f', p, depth) for p in parts)}], axis: {axis})"

    def _product(self, shape: Dims, depth: int) -> str:
        inner = self._pick([2, 3, "?s"])
        left = self._tensor("f", (*shape[:-1], inner), depth)
        right = self._tensor("f", (inner, shape[-1]), depth)
        return f"tanh({left} @ {right})"

    def _call(self, shape: Dims, depth: int) -> str:
        name, arity = self._pick(self.functions)
        args = [self._tensor("f", shape, depth) for _ in range(arity)]
        if self._chance(0.3):
            args.append(f"k: {self._pick(['0.25', '1', 'gain'])}")
        return f"{name}({', '.join(args)})" if self._chance(0.7) else f"{args[0]}.{name}({', '.join(args[1:])})"

    def _block(self, shape: Dims, depth: int) -> str:
        name = self._pick(self.blocks)
        call = f"{name}({self._tensor('f', (*shape[:-1], self._pick([2, 3])), depth)}, n: {shape[-1]})"
        return f"({call} as {self._name('layer')})" if self._chance(0.5) and not self.depth else call

    def _integers(self, shape: Dims, depth: int) -> str:
        d = depth - 1
        forms: list[Callable[[], str]] = [
            lambda: "(" + self._pick(_INTS).format(self._tensor("i", shape, d), self._broad("i", shape, d)) + ")",
            lambda: f"clamp({self._tensor('i', shape, d)}, -9, 9)",
            lambda: f"cast({self._tensor('b', shape, d)}, I32)",
            lambda: (
                f"where({self._tensor('b', shape, d)}, {self._tensor('i', shape, d)}, {self._broad('i', shape, d)})"
            ),
            lambda: self._leaf("i", shape),
        ]
        if len(shape) < 3:
            forms.append(lambda: f"sum({self._tensor('b', (*shape, self._pick(['?b', 3])), d)}, -1)")
            forms.append(lambda: f"({self._tensor('i', (3, *shape), d)}).max(0)")
        return f"clamp({self._pick(forms)()}, -50, 50)"

    def _bools(self, shape: Dims, depth: int) -> str:
        d = depth - 1
        forms: list[Callable[[], str]] = [
            lambda: f"({self._tensor('i', shape, d)} {self._pick(_COMPARE)} {self._broad('i', shape, d)})",
            lambda: "(" + self._pick(_LOGIC).format(self._tensor("b", shape, d), self._broad("b", shape, d)) + ")",
            lambda: f"!{self._tensor('b', shape, d)}",
            lambda: self._leaf("b", shape),
        ]
        return str(self._pick(forms)())

    # ------------------------------------------------------------------ statements
    def _statement(self, pad: str) -> None:
        forms = ["let"] * 5
        if self.depth < 2:
            forms += ["repeat", "scan", "over", "loop", "if", "static_if"]
        if not self.depth:
            forms += ["split", "grad", "list", "comment", "static"]
        getattr(self, f"_{self._pick(forms)}")(pad)

    def _let(self, pad: str) -> None:
        kind = self._pick("fffffib")
        shape = self._shape()
        known = [n for n, (k, s) in self.frames[-1].tensors.items() if k == "f" and n[0] == "v"]
        value = self._tensor(kind, shape, int(self.rng.integers(1, 4)))
        name = self._name("v")
        if known and self._chance(0.2):  # rebinding, also to another shape
            name = self._pick(known)
        if kind == "f" and self._chance(0.6):
            value = f"tanh({value})"
        self.lines.append(f"{pad}let {name} = {value};")
        self._bind(name, kind, shape)

    def _comment(self, pad: str) -> None:
        self.lines.append(f"{pad}{self._pick(['// a remark', '/* a /* nested */ remark */', '', '/* one */ // two'])}")

    def _static(self, pad: str) -> None:
        name = self._name("s")
        self.lines.append(
            f"{pad}let {name} = {self._pick(['steps * 2 + 1', 'gain / 2', '(3 ** 2) % 5', 'max(steps, 2)', 'dim(x0, 1) div 2'])};"
        )
        shape = self._shape(2)
        target = self._name("v")
        self.lines.append(f"{pad}let {target} = tanh({self._tensor('f', shape, 1)} * {name});")
        self._bind(target, "f", shape)

    def _split(self, pad: str) -> None:
        names = [self._name("v") for _ in range(2)]
        rest = self._shape(2)[:2]
        sizes = self._pick([(1, 2), (2, 2), (3, 1)])
        inner = self._tensor("f", (sum(sizes), *rest), 2)
        self.lines.append(f"{pad}let ({', '.join(names)}) = split({inner}, 0, [{sizes[0]}, {sizes[1]}]);")
        for name, size in zip(names, sizes, strict=True):
            self._bind(name, "f", (size, *rest))

    def _list(self, pad: str) -> None:
        name, shape = self._name("l"), self._shape(2)
        target = self._name("v")
        self.lines.append(f"{pad}let {name} = [{self._tensor('f', shape, 1)}, {self._tensor('f', shape, 2)}];")
        self.lines.append(f"{pad}let {target} = {self._pick([f'{name}[0] * {name}[1]', f'stack({name}).mean(0)'])};")
        self._bind(target, "f", shape)

    def _grad(self, pad: str) -> None:
        shape = ("?b", 3)
        point, energy, name = self._name("v"), self._name("v"), self._name("v")
        self.lines.append(f"{pad}let {point} = {self._tensor('f', shape, 1)} + 0.1;")
        self._bind(point, "f", shape)
        self.lines.append(f"{pad}let {energy} = mean(tanh({point}) * {self._tensor('f', shape, 2)});")
        self._bind(energy, "f", ())
        self.lines.append(f"{pad}let {name} = tanh(grad({energy}, {point}));")
        self._bind(name, "f", shape)

    def _inside(self, pad: str, body: Callable[[str], None]) -> None:
        self.depth += 1
        self.frames.append(_Frame())
        body(pad + "  ")
        self.frames.pop()
        self.depth -= 1

    def _carried(self) -> tuple[str, Dims] | None:
        """A float value of the present level that a loop may carry."""
        found = [(n, s) for n, (k, s) in self.frames[-1].tensors.items() if k == "f" and n[0] == "v" and s != ("same",)]
        return self._pick(found) if found else None

    def _repeat(self, pad: str) -> None:
        carried = self._carried()
        if carried is None:
            return self._let(pad)
        name, shape = carried
        variable = self._name("i")
        head = self._pick([f"repeat {variable} in 0..steps", f"repeat {variable} in 1..=2", "repeat steps", "repeat 2"])

        def body(inner: str) -> None:
            if self._chance(0.5):
                self._statement(inner)
            factor = f" * ({variable} + 1)" if "in" in head and self._chance(0.5) else ""
            self.lines.append(f"{inner}let {name} = tanh({name}{factor} + {self._broad('f', shape, 2)});")

        self.lines.append(f"{pad}{head} {{")
        self._inside(pad, body)
        self.lines.append(f"{pad}}}")
        return None

    def _scan(self, pad: str) -> None:
        shape, name = self._shape(2), self._name("v")
        start = self._tensor("f", shape, 1)
        if not shape and self._chance(0.3):
            start = self._pick(["0", "1.0"])
        length = self._pick(["3", "steps", "dim(x1, 1)", "?b"])
        emits = self._name("v") if self._chance(0.5) else ""

        def body(inner: str) -> None:
            if self._chance(0.4):
                self._statement(inner)  # before the carry is in sight, which it might bind to another shape
            self._bind(name, "f", shape)
            self.lines.append(f"{inner}let {name} = tanh({name} * 0.9 + {self._broad('f', shape, 2)});")
            if emits:
                self.lines.append(f"{inner}emit {name} * 2.0 as {emits};")

        self.lines.append(f"{pad}scan {name} = {start} for {length} {{")
        self._inside(pad, body)
        self.lines.append(f"{pad}}}")
        self._bind(name, "f", shape)
        if emits and length in ("3", "?b"):
            self._bind(emits, "f", (3 if length == "3" else "?b", *shape))
        elif emits:
            self.lines.append(f"{pad}let {emits} = sum({emits}, 0);")
            self._bind(emits, "f", shape)

    def _over(self, pad: str) -> None:
        axis, rest = self._pick(["?b", "?s", 3]), self._shape(2)
        first, second, slice_, emits = (self._name("v") for _ in range(4))
        source = self._tensor("f", (axis, *rest), 2)
        reverse = " reverse" if self._chance(0.4) else ""

        def body(inner: str) -> None:
            for name in (first, second, slice_):
                self._bind(name, "f", rest if name != second else ())
            self.lines.append(f"{inner}let {first} = tanh({first} * 0.5 + {slice_} * {self._broad('f', rest, 1)});")
            self.lines.append(f"{inner}let {second} = {second} + mean({first});")
            self.lines.append(f"{inner}emit {self._tensor('f', rest, 1)} + {slice_} as {emits};")

        self.lines.append(
            f"{pad}scan {first} = {self._tensor('f', rest, 1)}, {second} = 0.0 over {slice_} in {source}{reverse} {{"
        )
        self._inside(pad, body)
        self.lines.append(f"{pad}}}")
        self._bind(first, "f", rest)
        self._bind(second, "f", ())
        self._bind(emits, "f", (axis, *rest))

    def _loop(self, pad: str) -> None:
        shape, name, counter = self._shape(2), self._name("v"), self._name("k")
        self.lines.append(
            f"{pad}loop {name} = {self._tensor('f', shape, 1)}, {counter} = 0 while {counter} < {self._pick([0, 2, 3])} max 4 {{"
        )

        def body(inner: str) -> None:
            self._bind(name, "f", shape)
            self.lines.append(f"{inner}let {name} = sin({name} + {self._broad('f', shape, 2)});")
            self.lines.append(f"{inner}let {counter} = {counter} + 1;")

        self._inside(pad, body)
        self.lines.append(f"{pad}}}")
        self._bind(name, "f", shape)

    def _if(self, pad: str) -> None:
        shape, name = self._shape(2), self._name("v")

        def body(inner: str) -> None:
            if self._chance(0.3):
                self._let(inner)
            self.lines.append(f"{inner}let {name} = tanh({self._tensor('f', shape, 2)});")

        self.lines.append(f"{pad}if {self._tensor('b', (), 2)} {{")
        self._inside(pad, body)
        self.lines.append(f"{pad}}} else {{")
        self._inside(pad, body)
        self.lines.append(f"{pad}}}")
        self._bind(name, "f", shape)

    def _static_if(self, pad: str) -> None:
        carried = self._carried()
        if carried is None:
            return self._let(pad)
        name, shape = carried
        self.lines.append(f"{pad}if {self._pick(['flag', '!flag', 'steps > 1', 'gain == 0.5', 'flag & steps < 3'])} {{")
        self._inside(pad, lambda inner: self.lines.append(f"{inner}let {name} = tanh({self._tensor('f', shape, 2)});"))
        self.lines.append(f"{pad}}}")
        return None

    # ------------------------------------------------------------------ outputs
    def _outputs(self) -> None:
        names = [n for n, (k, s) in self.frames[0].tensors.items() if n[0] == "v"]
        chosen = list(dict.fromkeys([*names[-3:], self._pick(names)]))
        scalars = " + ".join(f"mean({n})" for n in chosen if self.frames[0].tensors[n][0] == "f") or "0.0 * mean(x0)"
        self.lines.append(f"out loss = {scalars};")
        self.lines.append(f"{self._pick(['out', 'output'])} {', '.join(chosen)};")
        if self._chance(0.3):
            self.lines.append(f"tap hidden = {self._tensor('f', ('?b', 3), 1)} + x0;")
