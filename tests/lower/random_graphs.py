"""Random well-typed graphs over a few dynamic and static axes, for comparing devices with the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np

import rlxlang.ops  # noqa: F401  fills the op table
from rlxlang.ir import Builder, Graph, GraphOutput, Node, declare
from rlxlang.types import BOOL, F32, I32, Dim, DimLike, exact_quotient

UNARY = ("neg", "abs", "tanh", "exp", "sigmoid", "sin", "sqrt_abs", "floor")
BINARY = ("add", "sub", "mul", "maximum", "minimum", "div_safe")
REDUCE = ("sum", "max", "min", "prod_tanh", "argmax")


class RandomGraph:
    """Grows a graph node by node; `build` gives the graph, `arrays` matching inputs."""

    def __init__(self, seed: int, steps: int = 25) -> None:
        self.rng = np.random.default_rng(seed)
        self.b = Builder()
        self.sizes = {"?a": int(self.rng.integers(1, 6)), "?b": int(self.rng.integers(1, 20))}
        self.dims: list[DimLike] = [Dim.axis("?a"), Dim.axis("?b"), 3, 4, 1, 17]
        self.values: list[Node] = []
        self.inputs: list[Node] = []
        for k in range(3):
            shape = tuple(self.dims[i] for i in self.rng.integers(0, len(self.dims), self.rng.integers(0, 4)))
            self.inputs.append(self.b.input(f"x{k}", F32, shape))
        self.values += self.inputs
        for _ in range(steps):
            self.values.append(self._grow())

    def _pick(self) -> Node:
        # recent values are more likely: long chains are where fusion errs
        back = min(int(self.rng.geometric(0.25)), len(self.values))
        return self.values[-back]

    def _grow(self) -> Node:
        kind = self.rng.choice(
            ["unary", "binary", "reduce", "softmax", "transpose", "slice", "concat", "pad", "dot", "take", "reshape", "flip",
             "cumsum", "select", "norm", "broadcast"],
            p=[0.17, 0.24, 0.08, 0.06, 0.05, 0.05, 0.04, 0.03, 0.06, 0.05, 0.04, 0.02, 0.03, 0.03, 0.03, 0.02],
        )  # fmt: skip
        return getattr(self, f"_{kind}")()

    # ------------------------------------------------------------------ elementwise
    def _unary(self) -> Node:
        x, name = self._pick(), self.rng.choice(UNARY)
        if name == "sqrt_abs":
            return self.b.emit("sqrt", self.b.emit("abs", x))
        if name == "exp":
            return self.b.emit("exp", self.b.emit("tanh", x))
        return self.b.emit(str(name), x)

    def _aligned(self, x: Node, y: Node) -> tuple[Node, Node] | None:
        rank = max(x.tensor.rank, y.tensor.rank)
        shape: list[DimLike] = []
        for k in range(-rank, 0):
            p = x.shape[k] if -k <= x.tensor.rank else 1
            q = y.shape[k] if -k <= y.tensor.rank else 1
            if p != q and 1 not in (p, q):
                return None
            shape.append(q if p == 1 else p)
        wide = tuple(shape)
        return (self._stretched(x, wide), self._stretched(y, wide))

    def _stretched(self, x: Node, shape: tuple[DimLike, ...]) -> Node:
        return x if x.shape == shape else self.b.emit("broadcast_to", x, shape=shape)

    def _binary(self) -> Node:
        for _ in range(8):
            pair = self._aligned(self._pick(), self._pick())
            if pair is not None:
                name = self.rng.choice(BINARY)
                if name == "div_safe":
                    bottom = self.b.emit("add", self.b.emit("abs", pair[1]), self.b.full_like(pair[1], 1.5))
                    return self.b.emit("div", pair[0], bottom)
                product = self.b.emit(str(name), *pair)
                return self.b.emit("tanh", product) if name == "mul" else product
        return self._unary()

    def _select(self) -> Node:
        x = self._pick()
        return self.b.emit("select", self.b.emit("gt", x, self.b.full_like(x, 0.1)), x, self.b.emit("neg", x))

    def _broadcast(self) -> Node:
        x = self._pick()
        return (
            self.b.emit("broadcast_to", x, shape=(self.dims[int(self.rng.integers(0, 4))], *x.shape))
            if x.tensor.rank < 3
            else x
        )

    # ------------------------------------------------------------------ reductions
    def _axes(self, x: Node) -> tuple[int, ...]:
        count = int(self.rng.integers(1, x.tensor.rank + 1))
        return tuple(sorted(int(k) for k in self.rng.choice(x.tensor.rank, count, replace=False)))

    def _reduce(self) -> Node:
        x, name = self._pick(), self.rng.choice(REDUCE)
        if not x.tensor.rank:
            return self._unary()
        if name == "argmax":
            return self.b.emit(
                "cast", self.b.emit("argmax", x, axis=int(self.rng.integers(0, x.tensor.rank))), dtype=F32
            )
        if name == "prod_tanh":
            return self.b.emit("prod", self.b.emit("tanh", x), axes=self._axes(x))
        return self.b.emit(str(name), x, axes=self._axes(x))

    def _restored(self, x: Node, like: Node, axes: tuple[int, ...]) -> Node:
        shape = tuple(1 if k in axes else n for k, n in enumerate(like.shape))
        return self._stretched(self.b.emit("reshape", x, shape=shape), like.shape)

    def _softmax(self) -> Node:
        x = self._pick()
        if not x.tensor.rank:
            return self._unary()
        axes = (x.tensor.rank - 1,) if self.rng.random() < 0.7 else self._axes(x)
        top = self._restored(self.b.emit("max", x, axes=axes), x, axes)
        e = self.b.emit("exp", self.b.emit("sub", x, top))
        return self.b.emit("div", e, self._restored(self.b.emit("sum", e, axes=axes), x, axes))

    def _norm(self) -> Node:
        x = self._pick()
        if not x.tensor.rank:
            return self._unary()
        axes = (x.tensor.rank - 1,)
        centred = self.b.emit("sub", x, self._restored(self.b.emit("max", x, axes=axes), x, axes))
        square = self.b.emit("sum", self.b.emit("mul", centred, centred), axes=axes)
        scale = self.b.emit("rsqrt", self.b.emit("add", square, self.b.full_like(square, 1.0)))
        return self.b.emit("mul", centred, self._restored(scale, x, axes))

    def _cumsum(self) -> Node:
        x = self._pick()
        if not x.tensor.rank:
            return self._unary()
        axis = int(self.rng.integers(0, x.tensor.rank))
        flags = [bool(v) for v in self.rng.integers(0, 2, 2)]
        return self.b.emit("tanh", self.b.emit("cumsum", x, axis=axis, exclusive=flags[0], reverse=flags[1]))

    # ------------------------------------------------------------------ movement
    def _transpose(self) -> Node:
        x = self._pick()
        return self.b.emit("transpose", x, perm=tuple(int(k) for k in self.rng.permutation(x.tensor.rank)))

    def _flip(self) -> Node:
        x = self._pick()
        return self.b.emit("flip", x, axes=self._axes(x)) if x.tensor.rank else x

    def _slice(self) -> Node:
        x = self._pick()
        starts, stops, steps = [], [], []
        for n in x.shape:
            if isinstance(n, int) and n >= 3 and self.rng.random() < 0.6:
                starts.append(int(self.rng.integers(0, 2)))
                stops.append(int(self.rng.integers(2, n + 1)))
                steps.append(int(self.rng.integers(1, 3)))
            else:
                starts.append(0), stops.append(n), steps.append(1)
        return self.b.emit("slice", x, starts=tuple(starts), stops=tuple(stops), steps=tuple(steps))

    def _pad(self) -> Node:
        x = self._pick()
        low = tuple(int(v) for v in self.rng.integers(0, 3, x.tensor.rank))
        high = tuple(int(v) for v in self.rng.integers(0, 2, x.tensor.rank))
        return self.b.emit("pad", x, low=low, high=high, value=0.5)

    def _concat(self) -> Node:
        x = self._pick()
        if not x.tensor.rank:
            return self._unary()
        return self.b.emit("concat", x, self.b.emit("neg", x), axis=int(self.rng.integers(0, x.tensor.rank)))

    def _reshape(self) -> Node:
        x = self._pick()
        total = x.tensor.size
        head = exact_quotient(total, x.shape[-1]) if x.tensor.rank else None
        choices: list[tuple[DimLike, ...]] = [(total,), (*x.shape, 1), (1, *x.shape)]
        if head is not None and x.shape[-1] != 0:
            choices.append((head, x.shape[-1]))
        return self.b.emit("reshape", x, shape=choices[int(self.rng.integers(0, len(choices)))])

    def _take(self) -> Node:
        x = self._pick()
        if not x.tensor.rank:
            return self._unary()
        axis = int(self.rng.integers(0, x.tensor.rank))
        index = self.b.constant(self.rng.integers(-3, 4, (2, 3)).astype(np.int32), I32)
        if self.rng.random() < 0.5 and self.inputs[0].tensor.rank <= 2:
            index = self.b.emit(
                "cast", self.b.emit("mul", self.inputs[0], self.b.full_like(self.inputs[0], 2.0)), dtype=I32
            )
        return self.b.emit("take", x, index, axis=axis)

    def _dot(self) -> Node:
        x = self._pick()
        if not x.tensor.rank:
            return self._unary()
        axis = int(self.rng.integers(0, x.tensor.rank))
        mates = [v for v in self.values if any(n == x.shape[axis] for n in v.shape)]
        y = mates[int(self.rng.integers(0, len(mates)))]
        other = next(k for k, n in enumerate(y.shape) if n == x.shape[axis])
        if x.tensor.rank + y.tensor.rank > 5:
            return self._unary()
        return self.b.emit("tanh", self.b.emit("dot_general", x, y, batch=((), ()), contract=((axis,), (other,))))

    # ------------------------------------------------------------------ results
    def build(self) -> Graph:
        """The graph; its outputs are the last value and a few others."""
        chosen = {id(self.values[-1]): self.values[-1]}
        for k in self.rng.integers(0, len(self.values), 4):
            chosen.setdefault(id(self.values[int(k)]), self.values[int(k)])
        outputs = [GraphOutput(f"y{k}", v) for k, v in enumerate(chosen.values())]
        return self.b.finish("random", [declare(i) for i in self.inputs], outputs)

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Inputs that fit."""
        found = {}
        for node in self.inputs:
            shape = [n if isinstance(n, int) else self.sizes[str(n)] for n in node.shape]
            found[node.attrs["name"]] = self.rng.uniform(-1.5, 1.5, shape).astype(np.float32)
        return found


__all__ = ["BOOL", "RandomGraph"]
