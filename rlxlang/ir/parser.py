"""Reading the text of graphs that `rlxlang.ir.printer` writes."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from rlxlang.ir.node import Constant, Graph, GraphInput, GraphOutput, Initializer, Node, SourcedGuard
from rlxlang.ir.op import OPS
from rlxlang.types import DTYPES, Dim, DimLike, Guard, TensorType, TupleType, ValueType, floor_div
from rlxlang.types.dim import maximum, minimum, mod

T = TypeVar("T")


class GraphTextProblem(ValueError):
    """Text that is no graph; the message names the line."""


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int


_TOKEN = re.compile(
    r"""(?P<string>"(?:[^"\\\n]|\\.)*") | (?P<node>%\d+) | (?P<graph>\#\d+) | (?P<axis>\?[\w.]*)
      | (?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?) | (?P<word>[^\W\d]\w*) | (?P<sign>\*\*|==|<=|[][(){}:;,=+*%-])""",
    re.VERBOSE,
)


def parse_graph(text: str) -> Graph:
    """The graph that `print_graph` wrote; the last one of the text.

    Raises:
        GraphTextProblem: The text is not one of `print_graph`, or names an op that does not exist.
    """
    return _Reader(text).file()


def _tokens(text: str) -> list[_Token]:
    found, position = [], 0
    while position < len(text):
        if text[position].isspace():
            position += 1
            continue
        match = _TOKEN.match(text, position)
        if match is None:
            raise GraphTextProblem(f"line {_line(text, position)}: {text[position]!r} is not expected")
        found.append(_Token(match.lastgroup or "", match.group(), position))
        position = match.end()
    found.append(_Token("end", "the end of the text", len(text)))
    return found


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


class _Reader:
    """Reads tokens one after the other."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokens(text)
        self._next = 0
        self._graphs: dict[str, Graph] = {}
        self._nodes: dict[str, Node] = {}

    # -------------------------------------------------------------------------------------- tokens
    @property
    def _ahead(self) -> _Token:
        return self._tokens[self._next]

    def _fail(self, message: str) -> GraphTextProblem:
        return GraphTextProblem(f"line {_line(self._text, self._ahead.start)}: {message}")

    def _take(self, kind: str, what: str = "") -> str:
        token = self._ahead
        if token.kind != kind:
            raise self._fail(f"{what or kind} is expected, not {token.text!r}")
        self._next += 1
        return token.text

    def _is(self, text: str) -> bool:
        return self._ahead.text == text and self._ahead.kind in ("sign", "word")

    def _skip(self, text: str) -> bool:
        if not self._is(text):
            return False
        self._next += 1
        return True

    def _expect(self, text: str) -> None:
        if not self._skip(text):
            raise self._fail(f"{text!r} is expected, not {self._ahead.text!r}")

    def _string(self) -> str:
        return str(json.loads(self._take("string", "a string")))

    def _list(self, close: str, item: Callable[[], T]) -> list[T]:
        """Items separated by commas up to a closing sign, which is consumed."""
        items: list[T] = []
        while not self._skip(close):
            if items:
                self._expect(",")
            items.append(item())
        return items

    # -------------------------------------------------------------------------------------- graphs
    def file(self) -> Graph:
        """All graphs; the last one."""
        graph = self._graph()
        while self._ahead.kind != "end":
            graph = self._graph()
        return graph

    def _graph(self) -> Graph:
        self._expect("graph")
        number = self._take("graph") if self._ahead.kind == "graph" else ""
        name = self._string()
        self._expect("{")
        self._nodes = {}
        inputs: list[GraphInput] = []
        outputs: list[GraphOutput] = []
        guards: list[SourcedGuard] = []
        while not self._skip("}"):
            if self._ahead.kind == "node":
                self._node(inputs)
            elif self._skip("require"):
                guards.append(self._guard())
            else:
                role = self._take("word", "a node, `require`, `out` or `tap`")
                output = self._string()
                self._expect("=")
                outputs.append(GraphOutput(output, self._operand(), role))
        graph = Graph(name, tuple(inputs), tuple(outputs), tuple(guards))
        if number:
            self._graphs[number] = graph
        return graph

    def _guard(self) -> SourcedGuard:
        left = self._dim()
        relation = next((r for r in ("==", "<=", "divides") if self._skip(r)), None)
        if relation is None:
            raise self._fail(f"`==`, `<=` or `divides` is expected, not {self._ahead.text!r}")
        right = self._dim()
        self._expect("for")
        return SourcedGuard(Guard(left, relation, right, self._string()))

    def _operand(self) -> Node:
        name = self._ahead.text
        if self._ahead.kind != "node" or name not in self._nodes:
            raise self._fail(f"{name} is no node defined before")
        self._next += 1
        return self._nodes[name]

    def _node(self, inputs: list[GraphInput]) -> None:
        if self._ahead.text in self._nodes:
            raise self._fail(f"{self._ahead.text} is defined twice")
        name = self._take("node")
        self._expect(":")
        type_ = self._type()
        self._expect("=")
        word = self._take("word", "an op")
        if word in ("input", "param", "seed") and self._ahead.kind == "string":
            inputs.append(self._input(word, type_))
            self._nodes[name] = inputs[-1].node
            return
        if word not in OPS:
            self._next -= 1
            raise self._fail(f"there is no op `{word}`")
        self._expect("(")
        operands: list[Node] = []
        while self._ahead.kind == "node":
            operands.append(self._operand())
            if not self._skip(","):
                break
        attrs: dict[str, Any] = {}
        if self._skip(";"):
            attrs.update(self._list(")", self._option))
        else:
            self._expect(")")
        self._nodes[name] = Node(OPS[word], tuple(operands), attrs, type_)

    def _option(self) -> tuple[str, Any]:
        key = self._take("word", "the name of an option")
        self._expect(":")
        return key, self._value()

    def _input(self, kind: str, type_: ValueType) -> GraphInput:
        name = self._string()
        init = None
        if self._skip("init"):
            function = self._take("word", "an initializer")
            self._expect("(")
            init = Initializer(function, tuple(self._list(")", self._option)))
        doc = self._string() if self._skip("doc") else ""
        node = Node(OPS["input"], (), {"name": name, "kind": kind}, type_)
        return GraphInput(name, kind, node, init, doc)

    # -------------------------------------------------------------------------------------- types, sizes
    def _type(self) -> ValueType:
        if self._skip("("):
            return TupleType(tuple(self._list(")", self._tensor_type)))
        return self._tensor_type()

    def _tensor_type(self) -> TensorType:
        self._expect("[")
        word = self._take("word", "a dtype")
        if word not in DTYPES:
            raise self._fail(f"there is no dtype `{word}`")
        self._expect(";")
        return TensorType(DTYPES[word], tuple(self._list("]", self._dim)))

    def _dim(self) -> DimLike:
        total: DimLike = -self._term() if self._skip("-") else self._term()
        while True:
            if self._skip("+"):
                total = total + self._term()
            elif self._skip("-"):
                total = total - self._term()
            else:
                return total

    def _term(self) -> DimLike:
        value = self._power()
        while self._skip("*"):
            value = value * self._power()
        return value

    def _power(self) -> DimLike:
        base = self._atom()
        value = base
        if self._skip("**"):
            for _ in range(int(self._take("number")) - 1):
                value = value * base
        return value

    def _atom(self) -> DimLike:
        if self._ahead.kind == "axis":
            return Dim.axis(self._take("axis"))
        if self._ahead.kind == "number":
            return int(self._take("number"))
        for word, function in (("min", minimum), ("max", maximum)):
            if self._skip(word):
                self._expect("(")
                left = self._dim()
                self._expect(",")
                right = self._dim()
                self._expect(")")
                return function(left, right)
        self._expect("(")
        value = self._dim()
        for word, divide in (("div", floor_div), ("%", mod)):
            if self._skip(word):
                divisor = self._dim()
                if divisor == 0:
                    raise self._fail(f"{value} is divided by zero")
                value = divide(value, divisor)
                break
        self._expect(")")
        return value

    # -------------------------------------------------------------------------------------- options
    def _value(self) -> Any:
        token = self._ahead
        if token.kind == "string":
            return self._string()
        if token.kind == "graph":
            self._next += 1
            if token.text not in self._graphs:
                raise self._fail(f"{token.text} is no graph defined before")
            return self._graphs[token.text]
        if self._skip("["):
            return tuple(self._list("]", self._value))
        for word, value in (("true", True), ("false", False), ("none", None)):
            if self._skip(word):
                return value
        if token.kind == "word" and token.text in DTYPES:
            self._next += 1
            return self._constant(token.text) if self._is("[") else DTYPES[token.text]
        return self._number()

    def _number(self) -> Any:
        start = self._next
        sign = -1.0 if self._skip("-") else 1.0
        token = self._ahead
        if token.text in ("inf", "nan") or (token.kind == "number" and not token.text.isdigit()):
            self._next += 1
            return sign * float(token.text)
        self._next = start
        return self._dim()

    def _constant(self, name: str) -> Constant:
        dtype = DTYPES[name].numpy
        self._expect("[")
        shape = tuple(int(n) for n in self._list("]", lambda: self._take("number", "a size")))
        self._expect("{")
        if self._ahead.kind == "string":
            data = base64.b64decode(self._string())
            self._expect("}")
            array = np.frombuffer(data, dtype)
        else:
            numbers = self._list("}", self._value)
            array = np.array(numbers, dtype if dtype.kind in "biu" else np.float64).astype(dtype)
        if array.size != int(np.prod(shape)):
            raise self._fail(f"a constant of shape {list(shape)} has {array.size} numbers")
        return Constant(array.reshape(shape))
