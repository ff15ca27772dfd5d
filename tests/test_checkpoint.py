"""Safetensors files: content, damage, names that do not fit."""

from __future__ import annotations

import os
from pathlib import Path

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
