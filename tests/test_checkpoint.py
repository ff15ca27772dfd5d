"""Safetensors files: content, damage, names that do not fit."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import rlxlang as rlx
from rlxlang.checkpoint import load_weights, read_tensors, save_weights, write_tensors

ARRAYS = {
    "a": np.arange(6, dtype=np.float32).reshape(2, 3),
    "b.scalar": np.array(2.5),
    "empty": np.zeros((0, 4), np.int64),
    "flags": np.array([True, False, True]),
    "half": np.array([1.5, -2], ml_dtypes.bfloat16),
    "größe": np.array([1, 2], np.uint8),
}


@pytest.fixture
def func() -> rlx.Func:
    text = "input x: [?n, 3]; param w: [3, 2] = ones(); param b: [2] = zeros(); out y = x @ w + b;"
    return rlx.loads(text, name="line")


def test_round_trip(tmp_path: Path) -> None:
    write_tensors(tmp_path / "t.safetensors", ARRAYS, {"note": "Grüße"})
    arrays, metadata = read_tensors(tmp_path / "t.safetensors")
    assert metadata == {"note": "Grüße"}
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        assert arrays[name].shape == array.shape
        assert arrays[name].tobytes() == array.tobytes()
        assert arrays[name].flags.writeable


def test_other_programs_read_and_write_the_same(tmp_path: Path) -> None:
    library = pytest.importorskip("safetensors.numpy")
    plain = {n: a for n, a in ARRAYS.items() if n != "half"}
    write_tensors(tmp_path / "t.safetensors", plain)
    for name, array in library.load_file(tmp_path / "t.safetensors").items():
        np.testing.assert_array_equal(array, plain[name])
    library.save_file({"w": ARRAYS["a"]}, tmp_path / "u.safetensors", metadata={"k": "v"})
    arrays, metadata = read_tensors(tmp_path / "u.safetensors")
    np.testing.assert_array_equal(arrays["w"], ARRAYS["a"])
    assert metadata == {"k": "v"}


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.safetensors"
    write_tensors(path, {"a": np.ones(2)})

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(rlx.RlxRuntimeError, match="No space"):
        write_tensors(path, {"a": np.zeros(2)})
    assert read_tensors(path)[0]["a"].tolist() == [1, 1]
    assert os.listdir(tmp_path) == ["t.safetensors"]


def test_what_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(rlx.RlxRuntimeError, match="cannot be written"):
        write_tensors(tmp_path / "no" / "t.safetensors", {"a": np.ones(2)})
    with pytest.raises(rlx.RlxValueError, match="`a`"):
        write_tensors(tmp_path / "t.safetensors", {"a": np.array(["text"])})


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff" * 8,
        b"\x08" + b"\0" * 7,
        b"\x04" + b"\0" * 7 + b"nope",
        b"\x02" + b"\0" * 7 + b"[]",
        b'\x3b\0\0\0\0\0\0\0{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}     \0\0\0\0',
        b'\x3b\0\0\0\0\0\0\0{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}     \0\0\0\0\0\0\0\0',
        b'\x3b\0\0\0\0\0\0\0{"a":{"dtype":"F8x","shape":[2],"data_offsets":[0,8]}}     \0\0\0\0\0\0\0\0',
    ],
)
def test_damaged_files(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(content)
    with pytest.raises(rlx.RlxValueError):
        read_tensors(tmp_path / "t")


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(rlx.RlxRuntimeError, match="cannot be read"):
        read_tensors(tmp_path / "t")


def test_weights_of_a_function(func: rlx.Func, tmp_path: Path) -> None:
    trained = func.with_params({"w": np.full((3, 2), 2, np.float32), "b": np.ones(2, np.float32)})
    save_weights(trained, tmp_path / "w")
    loaded = load_weights(func, tmp_path / "w")
    assert loaded.param_binding("w").tolist() == [[2, 2]] * 3
    assert read_tensors(tmp_path / "w")[1]["graph"] == "line"


def test_all_that_does_not_fit_is_reported_at_once(func: rlx.Func, tmp_path: Path) -> None:
    write_tensors(tmp_path / "w", {"w": np.ones((2, 3), np.float32), "bias": np.ones(2, np.float32)})
    with pytest.raises(rlx.RlxError) as caught:
        load_weights(func, tmp_path / "w")
    codes = sorted(d.code for d in caught.value.diagnostics)
    assert codes == ["E0805", "E0807", "E0807"]
    write_tensors(tmp_path / "w", {"w": np.ones((3, 2)), "b": np.ones(2, np.float32)})
    with pytest.raises(rlx.RlxTypeError, match="F64"):
        load_weights(func, tmp_path / "w")


def test_not_strict(func: rlx.Func, tmp_path: Path) -> None:
    write_tensors(tmp_path / "w", {"w": np.ones((3, 2), np.float32), "more": np.ones(2, np.float32)})
    loaded = load_weights(func, tmp_path / "w", strict=False)
    assert loaded.param_binding("w") is not None
    assert loaded.param_binding("b") is None


# --------------------------------------------------------------------------------------------- weights of other programs

LAYERS = """
graph "layers";
input x: [?n, 4];
param w[2] @ "layers.{i}.w": [4, 4];
param b[2] @ "layers.{i}.b": [4];
param head: [4, 3];
let h = tanh(x @ w[0] + b[0]);
let h = tanh(h @ w[1] + b[1]);
out y = h @ head;
"""


def foreign(rng: np.random.Generator) -> dict[str, np.ndarray[Any, Any]]:
    """A state as other frameworks save it: weights [out, in], halves, something that is no parameter."""
    state: dict[str, np.ndarray[Any, Any]] = {"encoder.position_ids": np.arange(3)}
    for k in range(2):
        state[f"encoder.layer.{k}.dense.weight"] = rng.normal(size=(4, 4)).astype(np.float16)
        state[f"encoder.layer.{k}.dense.bias"] = rng.normal(size=4).astype(np.float32)
    return {**state, "head.weight": rng.normal(size=(3, 4)).astype(np.float32)}


RENAME = {
    "encoder.layer.{i}.dense.weight": "layers.{i}.w",
    "encoder.layer.{i}.dense.bias": "layers.{i}.b",
    "head.weight": "head",
    "encoder.position_ids": None,
}


@pytest.mark.parametrize("kind", ["safetensors", "npz", "parts"])
def test_weights_of_other_programs(kind: str, rng: np.random.Generator, tmp_path: Path) -> None:
    state, model = foreign(rng), rlx.loads(LAYERS)
    paths: Any = tmp_path / "w"
    if kind == "npz":
        paths = tmp_path / "w.npz"
        np.savez(paths, **state)
    elif kind == "safetensors":
        write_tensors(paths, state)
    else:
        paths = [tmp_path / "1", tmp_path / "2"]
        for path, names in zip(paths, (list(state)[:2], list(state)[2:]), strict=True):
            write_tensors(path, {n: state[n] for n in names})
    loaded = model.load_weights(paths, rename=RENAME, transpose=["layers.*.w", "head"])
    x = rng.normal(size=(5, 4)).astype(np.float32)
    h = x
    for k in range(2):
        w, b = (state[f"encoder.layer.{k}.dense.{n}"].astype(np.float32) for n in ("weight", "bias"))
        h = np.tanh(h @ w.T + b)
    np.testing.assert_allclose(loaded(x=x), h @ state["head.weight"].T, rtol=1e-4, atol=1e-5)
    by_function = model.load_weights(
        paths,
        rename=lambda n: (
            None
            if "ids" in n
            else re.sub(r"encoder.layer.(\d).dense.(w|b)\w+", r"layers.\1.\2", n).removesuffix(".weight")
        ),
        transpose=["layers.?.w", "head"],
    )
    np.testing.assert_array_equal(by_function(x=x), loaded(x=x))


def test_what_does_not_fit_of_other_programs_is_told_together(rng: np.random.Generator, tmp_path: Path) -> None:
    write_tensors(tmp_path / "w", foreign(rng))
    model = rlx.loads(LAYERS)
    with pytest.raises(rlx.RlxError) as caught:
        model.load_weights(
            tmp_path / "w",
            rename={**RENAME, "nothing.{k}": "layers.{k}.w"},
            transpose=["layers.*.w", "tail", "layers.0.b"],
        )
    said = [d.message for d in caught.value.diagnostics]
    assert any("`rename` has `nothing.{k}`" in m for m in said)
    assert any("`transpose` has `tail`, and no tensor has such a name" in m for m in said)
    assert any("`layers.0.b` is no matrix" in m for m in said)
    (shape,) = [d for d in caught.value.diagnostics if d.code == "E0805"]
    assert shape.message == "`head` has shape [3, 4] in the file, expected [4, 3]"
    assert shape.help == 'it fits transposed: `transpose=["head"]`'
    with pytest.raises(rlx.RlxNameError, match="both renamed to `w`"):
        model.load_weights(tmp_path / "w", strict=False, rename={"encoder.layer.{i}.dense.weight": "w"})
    with pytest.raises(rlx.RlxValueError, match="has the place"):
        model.load_weights(tmp_path / "w", rename={"head.weight": "head.{i}"})
    with pytest.raises(rlx.RlxValueError, match="another part"):
        model.load_weights([tmp_path / "w", tmp_path / "w"])


def test_numbers_that_would_lose_digits_are_refused(func: rlx.Func, tmp_path: Path) -> None:
    write_tensors(tmp_path / "w", {"w": np.ones((3, 2), np.float16), "b": np.ones(2, np.int32)})
    with pytest.raises(rlx.RlxTypeError, match="`b` is I32 in the file, expected F32") as caught:
        func.load_weights(tmp_path / "w")
    assert len(caught.value.diagnostics) == 1
