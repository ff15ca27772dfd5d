"""Models that the tests draw."""

from __future__ import annotations

import random

from rlxlang.ir import Builder, Graph, GraphOutput, declare
from rlxlang.types import F32

ENCODER = """
graph "enc";
use transformer::{encoder};
input x: [?b, 8, 16];
let y = encoder(x, LAYERS, 2, 32, drop: 0.1) as enc;
out loss = mean(y);
"""
CAUSAL = """
use transformer::{gpt_block};
input x: [?b, 8, 16];
param scale: [16] = ones();
let x = x * scale;
repeat i in 0..4 {
  let x = gpt_block(x, 2) as "layers.{i}";
}
out loss = mean(tanh(x));
"""
CONTROL = """
graph "control";
input xs: [6, ?b, 4];
input t: [];
param w: [4, 4] = he_normal();
let first = xs[0];
if t > 0.0 {
  let y = relu(first @ w);
  let z = first;
} else {
  let y = first * 2.0;
  let z = tanh(first) + 1.0;
}
scan h = y, total = 0.0 over x in xs {
  let h = tanh(x @ w + h);
  let total = total + sum(h * z);
  emit h as hs;
}
loop k = 0, acc = total while acc > 0.1 max 20 {
  let acc = acc * 0.5;
  let k = k + 1;
}
out loss = mean(hs) + acc;
tap k;
"""
BRANCHES = """
input x: [4, 4];
let q = tanh(x); let k = sin(x); let v = exp(x);
let a = q @ k; let b = softmax(a); let c = b @ v;
out y = c + x;
"""


def random_graph(ops: int, seed: int, reach: int) -> Graph:
    """A graph of some ops, each of which uses values at most `reach` ops before it; what is not used is an output."""
    draw = random.Random(seed)
    b = Builder()
    nodes = [b.input("x", F32, (4,))]
    entry = declare(nodes[0])
    for _ in range(ops):
        left, right = (nodes[-1 - draw.randrange(min(reach, len(nodes)))] for _ in range(2))
        binary = draw.random() < 0.5
        nodes.append(b.emit(draw.choice(["add", "mul", "sub"]), left, right) if binary else b.emit("tanh", left))
    used = {i for n in nodes for i in n.inputs}
    outputs = [GraphOutput(f"y{k}", n) for k, n in enumerate(n for n in dict.fromkeys(nodes) if n not in used)]
    return b.finish("random", [entry], outputs)


def chain(ops: int) -> Graph:
    """Ops one after the other."""
    b = Builder()
    node = x = b.input("x", F32, (4,))
    for k in range(ops):
        node = b.emit("tanh" if k % 2 else "sin", node)
    return b.finish("chain", [declare(x)], [GraphOutput("y", node)])
