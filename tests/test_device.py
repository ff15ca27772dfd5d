"""Devices, threads and the cache of compiled code."""

from __future__ import annotations

import numpy as np
import pytest

import rlxlang as rlx


def test_parse() -> None:
    assert rlx.Device.parse("cpu") == rlx.Device.CPU == rlx.Device("cpu")
    assert rlx.Device.parse("OpenCL:1") == rlx.Device("opencl", 1)
    assert rlx.Device.parse(rlx.Device.REFERENCE) is rlx.Device.REFERENCE
    assert [str(d) for d in (rlx.Device.CPU, rlx.Device("opencl", 2), rlx.Device.REFERENCE)] == [
        "cpu",
        "opencl:2",
        "reference",
    ]
    assert len({rlx.Device.parse("cpu"), rlx.Device.CPU}) == 1


@pytest.mark.parametrize("name", ["gpu", "cp", "cpu:1", "opencl:x", "", "opencl:-1"])
def test_unknown(name: str) -> None:
    with pytest.raises(rlx.RlxBackendError, match="no device"):
        rlx.Device.parse(name)


def test_not_a_device() -> None:
    with pytest.raises(rlx.RlxTypeError, match="int"):
        rlx.Device.parse(3)  # type: ignore[arg-type]
    with pytest.raises(rlx.RlxBackendError, match="did you mean `opencl`"):
        rlx.Device.parse("opncl")


def test_devices() -> None:
    found = rlx.devices()
    assert found[-1] == rlx.Device.REFERENCE
    assert rlx.Device.CPU in found
    assert rlx.fastest_device() == found[0]
    func = rlx.Func("f", lambda s: s.input("x", [2]) * 2.0)
    assert rlx.fastest_device_for(func) == rlx.Device.CPU
    assert func.jit().device == rlx.Device.CPU
    absent = rlx.Device("opencl", 97)
    with pytest.raises(rlx.RlxBackendError, match="opencl:97"):
        func.run_on(absent, x=[1, 2])


def test_threads() -> None:
    func = rlx.Func("f", lambda s: (s.input("x", ["?n"]) * 2.0).sum())
    x = np.linspace(-1, 1, 100_000, dtype=np.float32)
    with rlx.threads(1):
        alone = func.run(x=x)[0]
        with rlx.threads(2):
            together = func.run(x=x)[0]
    np.testing.assert_array_equal(alone, together)
    for wrong in (0, -1, 1.5, True, 10**6):
        with pytest.raises(rlx.RlxValueError, match="threads"):
            rlx.set_threads(wrong)  # type: ignore[arg-type]
        with pytest.raises(rlx.RlxValueError, match="threads"), rlx.threads(wrong):  # type: ignore[arg-type]
            pass


def test_cache(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLX_CACHE_DIR", str(tmp_path))
    assert rlx.cache_info().entries == 0
    rlx.Func("f", lambda s: s.input("x", [2]) * 3.25).run(x=[1, 2])
    assert rlx.cache_info().entries > 0
    assert str(rlx.cache_info().path).startswith(str(tmp_path))
    rlx.clear_cache()
    assert rlx.cache_info().entries == 0
