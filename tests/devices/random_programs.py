"""Random graphs over most families of ops, without steps that a rounding error could cross."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlxlang.ir import Builder, Graph, GraphOutput, Node, declare
from rlxlang.ops.control import scan
from rlxlang.types import BF16, F16, F32, F64, I32, I64, Dim, DimLike
from tests.lower.random_graphs import RandomGraph

Array = np.ndarray[Any, Any]

ROUGH = (
    "unary", "binary", "reduce", "softmax", "transpose", "slice", "concat", "pad", "dot", "take", "reshape", "flip", "cumsum",
    "select", "norm", "broadcast",
)  # fmt: skip
SMOOTH = (
    "unary", "binary", "reduce", "softmax", "transpose", "slice", "concat", "pad", "dot", "take", "reshape", "flip", "cumsum",
    "broadcast",
)  # fmt: skip
WIDER = (
    "softmax_op", "statistics", "layer_norm", "attention", "cross_entropy", "along", "scatter", "batched_dot", "integers",
    "booleans", "casts", "scan", "iota", "row", "cell",
)  # fmt: skip


class RandomProgram(RandomGraph):
    """A random graph of more ops; see `RandomGraph`.

    Args:
        seed: Decides everything.
        steps: How many pieces it has.
        smooth: Only what has continuous derivatives.
    """

    def __init__(self, seed: int, steps: int = 20, smooth: bool = False) -> None:
        self.seed, self.smooth = seed, smooth
        super().__init__(seed, steps)

    def _grow(self) -> Node:
        kinds = (SMOOTH if self.smooth else ROUGH) + WIDER
        if self.rng.random() < 0.25:
            return self._binary()
        return getattr(self, f"_{kinds[int(self.rng.integers(0, len(kinds)))]}")()

    def _flip_coin(self) -> bool:
        return bool(self.rng.random() < 0.5)

    def _ranked(self, least: int) -> Node | None:
        """A recent value of some rank at least."""
        found = [v for v in self.values[-12:] if v.tensor.rank >= least]
        return found[int(self.rng.integers(0, len(found)))] if found else None

    # ------------------------------------------------------------------ without steps
    def _unary(self) -> Node:
        x = self._pick()
        names = ["neg", "tanh", "sin", "sigmoid", "cos", "erf", "atan", "softplus", "silu", "gelu", "exp"]
        if not self.smooth:
            names += ["abs", "relu", "sqrt_abs", "elu", "hard_tanh"]
        name = str(self.rng.choice(names))
        if name in ("exp", "sin", "cos"):
            return self.b.emit(name, self.b.emit("tanh", x))
        if name == "sqrt_abs":
            return self.b.emit("sqrt", self.b.emit("abs", x))
        if name == "elu":
            return self.b.emit("elu", x, alpha=0.7)
        return self.b.emit(name, x)

    def _binary(self) -> Node:
        for _ in range(8):
            pair = self._aligned(self._pick(), self._pick())
            if pair is None:
                continue
            name = str(
                self.rng.choice(["add", "sub", "mul", "div", "fma"] + ([] if self.smooth else ["maximum", "minimum"]))
            )
            if name == "div":
                bottom = self.b.emit("add", self.b.emit("mul", pair[1], pair[1]), self.b.full_like(pair[1], 1.5))
                return self.b.emit("div", pair[0], bottom)
            if name == "fma":
                return self.b.emit("tanh", self.b.emit("fma", pair[0], pair[1], pair[0]))
            result = self.b.emit(name, *pair)
            return self.b.emit("tanh", result) if name == "mul" else result
        return self._unary()

    def _reduce(self) -> Node:
        x = self._pick()
        if not x.tensor.rank:
            return self._unary()
        names = ["sum", "prod"] + ([] if self.smooth else ["max", "min"])
        name = str(self.rng.choice(names))
        return self.b.emit(name, self.b.emit("tanh", x), axes=self._axes(x))

    # ------------------------------------------------------------------ rows
    def _softmax_op(self) -> Node:
        x = self._ranked(1)
        if x is None:
            return self._unary()
        axis = int(self.rng.integers(0, x.tensor.rank))
        name = str(self.rng.choice(["softmax", "log_softmax", "logsumexp"]))
        if name == "logsumexp":
            return self.b.emit(name, x, axes=self._axes(x))
        return self.b.emit(name, x, axis=axis)

    def _statistics(self) -> Node:
        x = self._ranked(1)
        if x is None:
            return self._unary()
        name = str(self.rng.choice(["mean", "var"]))
        extra = {"ddof": 0} if name == "var" else {}
        return self.b.emit(name, x, axes=self._axes(x), **extra)

    def _weights(self, x: Node) -> Node:
        """A vector of the size of the last axis."""
        if x.tensor.rank == 1:
            return self.b.emit("sigmoid", x)
        return self.b.emit("tanh", self.b.emit("sum", x, axes=tuple(range(x.tensor.rank - 1))))

    def _layer_norm(self) -> Node:
        x = self._ranked(1)
        if x is None:
            return self._unary()
        w = self._weights(x)
        if self._flip_coin():
            return self.b.emit("layer_norm", x, w, self.b.emit("neg", w), eps=0.1)
        return self.b.emit("rms_norm", x, w, eps=0.1)

    def _attention(self) -> Node:
        x = self._ranked(2)
        if x is None:
            return self._unary()
        shape = (*(1,) * (4 - x.tensor.rank), *x.shape)
        if len(shape) > 4:
            return self._unary()
        q = self.b.emit("reshape", self.b.emit("tanh", x), shape=shape)
        options = {
            "scale": 0.5, "causal": self._flip_coin(), "window": None, "masked": False, "biased": False,
            "softcap": 1.5 if self._flip_coin() else None,
        }  # fmt: skip
        return self.b.emit("attention", q, self.b.emit("neg", q), self.b.emit("sin", q), **options)

    def _cross_entropy(self) -> Node:
        x = self._ranked(1)
        if x is None or not isinstance(x.shape[-1], int) or x.shape[-1] < 2:
            return self._unary()
        label = self.b.full(int(self.rng.integers(0, x.shape[-1])), I32, x.shape[:-1])
        smoothing = 0.1 if self._flip_coin() else 0.0
        return self.b.emit("softmax_cross_entropy", x, label, ignore_index=None, label_smoothing=smoothing)

    def _row(self) -> Node:
        """A chain along the last axis: two reductions that depend on each other, then a map."""
        x = self._ranked(2)
        if x is None:
            return self._unary()
        axes = (x.tensor.rank - 1,)
        mean = self._restored(self.b.emit("mean", x, axes=axes), x, axes)
        centred = self.b.emit("tanh", self.b.emit("sub", x, mean))
        total = self.b.emit("sum", self.b.emit("mul", centred, centred), axes=axes)
        return self.b.emit("mul", centred, self._restored(total, x, axes))

    # ------------------------------------------------------------------ parts and places
    def _along(self) -> Node:
        x = self._ranked(1)
        if x is None:
            return self._unary()
        axis = int(self.rng.integers(0, x.tensor.rank))
        index = self.b.constant(self.rng.integers(-2, 3, 3).astype(np.int32), I32)
        shape = list(x.shape)
        shape[axis] = 3
        column = self.b.emit("reshape", index, shape=tuple(3 if k == axis else 1 for k in range(x.tensor.rank)))
        return self.b.emit("take_along_axis", x, self._stretched(column, tuple(shape)), axis=axis)

    def _scatter(self) -> Node:
        x = self._ranked(1)
        if x is None:
            return self._unary()
        axis = int(self.rng.integers(0, x.tensor.rank))
        shape = (2, 2) if self._flip_coin() else (3,)
        index = self.b.constant(self.rng.integers(-2, 3, shape).astype(np.int32), I32)
        updates = self.b.emit("tanh", self.b.emit("take", x, index, axis=axis))
        return self.b.emit("scatter_add", x, index, updates, axis=axis)

    def _batched_dot(self) -> Node:
        x = self._ranked(3)
        if x is None:
            return self._unary()
        axes = [int(k) for k in self.rng.permutation(x.tensor.rank)]
        y = self.b.emit("tanh", self.b.emit("flip", x, axes=(axes[0],)))
        batch, contract = (axes[0],), tuple(axes[1:2] if self._flip_coin() else axes[1:3])
        product = self.b.emit("dot_general", x, y, batch=(batch, batch), contract=(contract, contract))
        return self.b.emit("tanh", product) if product.tensor.rank <= 4 else self._unary()

    def _iota(self) -> Node:
        x = self._ranked(1)
        if x is None:
            return self._unary()
        ramp = self.b.emit("iota", shape=x.shape, axis=int(self.rng.integers(0, x.tensor.rank)), dtype=F32)
        return self.b.emit("mul", self.b.emit("tanh", x), self.b.emit("tanh", ramp))

    # ------------------------------------------------------------------ other dtypes, from exact values only
    def _exact(self) -> Node:
        """Whole numbers from -6 to 6."""
        x = self.inputs[int(self.rng.integers(0, len(self.inputs)))]
        return self.b.emit("cast", self.b.emit("mul", x, self.b.full_like(x, 4.0)), dtype=I32)

    def _integers(self) -> Node:
        x = self._exact()
        if self._flip_coin():
            x = self.b.emit("cast", x, dtype=I64)
        for _ in range(int(self.rng.integers(1, 4))):
            name = str(
                self.rng.choice(
                    ["mod", "floor_div", "rem", "add", "mul", "bit_xor", "abs", "sum", "max", "cumsum", "sign"]
                )
            )
            if name in ("sum", "max"):
                x = self.b.emit(name, x, axes=self._axes(x)) if x.tensor.rank else x
            elif name == "cumsum":
                x = self.b.emit(name, x, axis=0, exclusive=False, reverse=False) if x.tensor.rank else x
            elif name in ("abs", "sign"):
                x = self.b.emit(name, x)
            else:
                x = self.b.emit(name, x, self.b.full_like(x, int(self.rng.choice([3, -2, 5]))))
        return self.b.emit("tanh", self.b.emit("cast", x, dtype=F32))

    def _booleans(self) -> Node:
        x = self._exact()
        flag = self.b.emit(str(self.rng.choice(["gt", "le", "eq", "ne"])), x, self.b.full_like(x, 1))
        if x.tensor.rank and self._flip_coin():
            flag = self.b.emit(str(self.rng.choice(["any", "all"])), flag, axes=self._axes(flag))
        if self._flip_coin():
            flag = self.b.emit("bit_not", flag)
        y = self._pick()
        pair = self._aligned(flag, y)
        if pair is None:
            return self.b.emit("cast", flag, dtype=F32)
        return self.b.emit("select", pair[0], pair[1], self.b.emit("neg", pair[1]))

    def _casts(self) -> Node:
        if self.smooth or self._flip_coin():  # the derivative of a cast is a cast, which rounds in steps
            wide = self.b.emit("cast", self._pick(), dtype=F64)
            return self.b.emit("cast", self.b.emit("tanh", wide), dtype=F32)
        x = self.inputs[int(self.rng.integers(0, len(self.inputs)))]
        return self.b.emit("cast", self.b.emit("cast", x, dtype=F16 if self._flip_coin() else BF16), dtype=F32)

    # ------------------------------------------------------------------ loops
    def _scan(self) -> Node:
        x = self._ranked(1)
        if x is None:
            return self._unary()
        shape: tuple[DimLike, ...] = x.shape[1:]
        body = Builder()
        h, row, w = (body.input(n, F32, s) for n, s in (("h", shape), ("row", shape), ("w", shape)))
        inner = body.emit("add", body.emit("mul", h, w), body.emit("sin", body.emit("tanh", row)))
        if shape and self._flip_coin():
            total = body.emit("softmax", inner, axis=len(shape) - 1)
            inner = body.emit("add", total, inner)
        new = body.emit("tanh", inner)
        outputs = [GraphOutput("h", new), GraphOutput("y", body.emit("mul", new, h))]
        graph = body.finish("body", [declare(n) for n in (h, row, w)], outputs)
        start, closed = self.b.full(0.5, F32, shape), self.b.full(0.75, F32, shape)
        last, stacked = scan(self.b, graph, [start], [x], [closed], x.shape[0], self._flip_coin())
        return last[0] if self._flip_coin() else stacked[0]

    def _cell(self) -> Node:
        """A layer: product with transposed weights, bias, activation, residual."""
        x = self._ranked(2)
        if x is None:
            return self._unary()
        rank = x.tensor.rank
        axes = tuple(range(rank - 1))
        weights = self.b.emit("dot_general", x, x, batch=((), ()), contract=(axes, axes))
        y = self.b.emit("dot_general", x, self.b.emit("tanh", weights), batch=((), ()), contract=((rank - 1,), (0,)))
        bias = self._stretched(self._weights(x), y.shape)
        return self.b.emit("add", self.b.emit("sigmoid", self.b.emit("add", y, bias)), x)

    # ------------------------------------------------------------------ results
    def loss(self) -> Graph:
        """The graph of one loss of the last value and a few others."""
        total: Node | None = None
        for k in {len(self.values) - 1, *(int(k) for k in self.rng.integers(0, len(self.values), 3))}:
            value = self.b.emit("tanh", self.values[k])
            part = self.b.emit("sum", value, axes=tuple(range(value.tensor.rank))) if value.tensor.rank else value
            total = part if total is None else self.b.emit("add", total, part)
        assert total is not None
        return self.b.finish("loss", [declare(i) for i in self.inputs], [GraphOutput("loss", total)])

    def arrays_for(self, sizes: dict[str, int], seed: int = 0) -> dict[str, Array]:
        """Inputs that fit, in quarters so that whole numbers made of them are exact."""
        rng = np.random.default_rng(seed)
        found = {}
        for node in self.inputs:
            shape = [sizes[str(n)] if isinstance(n, Dim) else n for n in node.shape]
            found[node.attrs["name"]] = np.asarray(rng.integers(-96, 96, shape) / 64 + 1 / 128, np.float32)
        return found
