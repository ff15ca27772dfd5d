"""Wrong calls name the op, what is expected and what is given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlxlang.ir import RangeValue
from rlxlang.types import TypeProblem
from tests.ops.calls import build

F = np.ones((2, 3), np.float32)
I = np.ones((2, 3), np.int32)  # noqa: E741
B = np.ones((2, 3), bool)


@pytest.mark.parametrize(
    ("name", "arguments", "options", "code", "words"),
    [
        ("add", (F, np.ones((2, 4), np.float32)), {}, "E0401", ["add", "[2, 3]", "[2, 4]"]),
        ("matmul", (F, F), {}, "E0402", ["@", "3", "2"]),
        ("matmul", (F, 2.0), {}, "E0404", ["@", "scalar"]),
        ("linear", (F, F[0]), {}, "E0404", ["linear", "[out, in]"]),
        ("sub", (B, B), {}, "E0301", ["Bool"]),
        ("neg", (B,), {}, "E0301", ["Bool"]),
        ("abs", (B,), {}, "E0301", ["abs", "Bool"]),
        ("sign", (B,), {}, "E0301", ["sign"]),
        ("bit_and", (F, F), {}, "E0301", ["&", "F32"]),
        ("pow", (I, -1), {}, "E0350", ["integer", "-1"]),
        ("add", (np.ones(2, np.int8), 300), {}, "E0351", ["300", "I8"]),
        ("add", (np.ones(2, np.float16), 1e6), {}, "E0351", ["F16"]),
        ("add", (np.ones(2, np.uint64), np.ones(2, np.int32)), {}, "E0302", ["U64", "I32"]),
        ("sum", (F, 2), {}, "E0403", ["sum", "2"]),
        ("sum", (F, (0, -2)), {}, "E0403", ["twice"]),
        ("max", (F, F), {}, "E0306", ["max"]),
        ("max", (np.zeros((2, 0), np.float32), 1), {}, "E0409", ["max", "empty"]),
        ("argmax", (np.zeros(0, np.float32),), {}, "E0409", ["argmax"]),
        ("softmax", (F, "x"), {}, "E0306", ["softmax", "axis"]),
        ("reshape", (F, (4, 2)), {}, "E0405", ["6", "8"]),
        ("reshape", (F, (4, -1)), {}, "E0405", ["4"]),
        ("reshape", (F, (-1, -1)), {}, "E0350", ["-1"]),
        ("transpose", (F, (0, 0)), {}, "E0403", ["transpose"]),
        ("squeeze", (F, 0), {}, "E0405", ["squeeze", "2"]),
        ("broadcast_to", (F, (3, 3)), {}, "E0401", ["[2, 3]", "[3, 3]"]),
        ("narrow", (F, 1, 2, 5), {}, "E0406", ["7", "3"]),
        ("split", (F, 1, (1, 1)), {}, "E0405", ["split"]),
        ("slice", (F, RangeValue(0, 1, 0)), {}, "E0350", ["step"]),
        ("take", (F, (5,)), {}, "E0406", ["5", "axis 0"]),
        ("take", (F, B), {}, "E0301", ["take", "Bool"]),
        ("concat", ((F, F[0]),), {}, "E0404", ["concat"]),
        ("stack", ((),), {}, "E0223", ["stack"]),
        ("where", (B, F, np.ones(4, np.float32)), {}, "E0401", ["where"]),
        ("rms_norm", (F, F[0], 1e-5), {}, "E0304", ["beta"]),
        ("layer_norm", (F, np.ones(2, np.float32)), {}, "E0401", ["layer_norm"]),
        ("softmax_cross_entropy", (F, F), {}, "E0404", ["labels"]),
        ("softmax_cross_entropy", (F, I[:, 0]), {"label_smoothing": 2.0}, "E0350", ["label_smoothing"]),
        ("attention", (F, F, F), {"heads": 2}, "E0407", ["3", "2 heads"]),
        ("attention", (F, F, F), {}, "E0223", ["heads"]),
        ("einsum", ("ij,jk", F), {}, "E0350", ["2 operands", "1"]),
        ("einsum", ("ij->ik", F), {}, "E0350", ["k"]),
        ("einsum", ("ij,jk->ik", F, F), {}, "E0402", ["j"]),
        ("cast", (F, "F32"), {}, "E0306", ["dtype"]),
        ("sum", (F,), {"keepdims": True}, "E0221", ["keepdims"]),
        ("relu", (F, 1), {}, "E0220", ["relu"]),
        ("add", (F,), {}, "E0223", ["add", "y"]),
        ("add", (F, "x"), {}, "E0304", ["add"]),
    ],
)  # fmt: skip
def test_problem(name: str, arguments: Any, options: Any, code: str, words: list[str]) -> None:
    with pytest.raises(TypeProblem) as caught:
        build(name, *arguments, **options)
    problem = caught.value
    text = " ".join([problem.message, *problem.notes, problem.help])
    assert problem.code == code, text
    for word in words:
        assert word in text


def test_helps() -> None:
    for name, arguments, help_ in (
        ("max", (F, F), "maximum"),
        ("pow", (I, -1), "1.0 / x"),
        ("rms_norm", (F, F[0], 1e-5), "eps: 1e-05"),
        ("softmax_cross_entropy", (F, F), "cross_entropy"),
    ):
        with pytest.raises(TypeProblem) as caught:
            build(name, *arguments)
        assert help_ in caught.value.help
