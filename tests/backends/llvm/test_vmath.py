from __future__ import annotations

import ctypes
import math
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from rlxlang.backends.llvm import vector_division
from rlxlang.backends.llvm.text import Function, ModuleText
from rlxlang.backends.llvm.vector import (
    AVX2,
    AVX512,
    BASELINE,
    VectorEmitter,
    VectorTarget,
    target_of_features,
    target_of_host,
)
from rlxlang.backends.llvm.vmath import BINARY, ELEMENTS, UNARY, emit_binary, emit_unary

llvm = pytest.importorskip("llvmlite.binding")

Kernel = Callable[[VectorEmitter, str, str], str]
Array = np.ndarray[Any, Any]
ELEMENT_DTYPES = {"float": np.float32, "double": np.float64}

WIDTHS = [(8, AVX2), (1, BASELINE), (4, BASELINE)]
if target_of_host() == AVX512:
    WIDTHS.insert(0, (16, AVX512))
elif target_of_host() != AVX2:
    WIDTHS = [(1, BASELINE), (4, BASELINE)]
width = pytest.mark.parametrize(("lanes", "target"), WIDTHS, ids=lambda value: getattr(value, "name", value))
dtype = pytest.mark.parametrize("dtype", ["F32", "F64"])


class Compiled:
    """Functions `void(ptr a, ptr b, ptr out, i64 n)` of one module."""

    def __init__(self, ir: str) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        llvm.initialize_native_asmparser()
        module = llvm.parse_assembly(ir)
        module.verify()
        machine = llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=1
        )
        self.engine = llvm.create_mcjit_compiler(module, machine)
        self.engine.finalize_object()

    def run(self, name: str, a: Array, b: Array, out_dtype: Any = None) -> Array:
        out = np.empty(a.shape, out_dtype or a.dtype)
        signature = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
        function = signature(self.engine.get_function_address("kernel_" + name))
        function(a.ctypes.data, b.ctypes.data, out.ctypes.data, a.size)
        return out


def compile_kernels(
    kernels: dict[str, Kernel], elem: str, lanes: int, target: VectorTarget, out_elem: str | None = None
) -> Compiled:
    module = ModuleText("kernels", attributes=target.attributes)
    for name, kernel in kernels.items():
        function = Function(module, "kernel_" + name, [("ptr", "a"), ("ptr", "b"), ("ptr", "o"), ("i64", "n")])
        v = VectorEmitter(function, target, lanes)
        with function.loop(0, "%n", lanes) as loop:
            mask = v.tail_mask(function.sub("%n", loop.index))
            a = v.load(elem, function.gep(elem, "%a", loop.index), mask)
            b = v.load(elem, function.gep(elem, "%b", loop.index), mask)
            place = function.gep(out_elem or elem, "%o", loop.index)
            v.store(out_elem or elem, kernel(v, a, b), place, mask)
        function.ret()
    return Compiled(module.render())


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


SPECIALS = [
    0.0, 1.0, 0.5, 2.0, 3.0, np.inf, np.nan, 1e-45, 1e-40, 1e-38, 3e38, 88.7, 88.8, 87.4, 103.9, 104.1, 0.625,
    0.4142135, 0.925, 1.5707964, 3.1415927, 32768.0, 32769.0, 1e6, 2e6, 1e7, 1e22, 2.5, 8388608.0, 9.3,
]  # fmt: skip
SPECIALS_F64 = [709.7, 709.9, 710.3, 745.1, 745.2, 708.4, 1e-320, 5e-324, 2e-308, 1e300, 26.2, 27.1, 1e-200]


def sample(name: str, count: int = 12000) -> Array:
    """Special values, random bit patterns, and values where functions live; seeded by name."""
    generator = np.random.default_rng(zlib.crc32(name.encode()))
    kind = np.float32 if name.endswith("F32") else np.float64
    unsigned = np.uint32 if kind is np.float32 else np.uint64
    special = np.array(SPECIALS + (SPECIALS_F64 if kind is np.float64 else []), kind)
    patterns = generator.integers(0, np.iinfo(unsigned).max, count, unsigned, endpoint=True).view(kind)
    wide = 120.0 if kind is np.float32 else 760.0
    return np.concatenate(
        [
            special,
            -special,
            patterns,
            generator.uniform(-1.5, 1.5, count).astype(kind),
            generator.uniform(-12, 12, count).astype(kind),
            generator.uniform(-wide, wide, count).astype(kind),
            (1 + generator.normal(size=count) * 1e-3).astype(kind),
        ]
    )


def wide_scalar(function: Callable[[float], float]) -> Callable[[Array], Array]:
    return lambda x: np.array([function(float(value)) for value in x], np.longdouble)


def reference_sigmoid(x: Array) -> Array:
    power = np.exp(-np.abs(x))
    return np.asarray(np.where(x < 0, power, 1) / (1 + power))


def reference_softplus(x: Array) -> Array:
    return np.asarray(np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))))


REFERENCES: dict[str, Callable[[Array], Array]] = {
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "recip": lambda x: 1 / x,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.rint,
    "binade": lambda x: np.where(np.isfinite(x), np.ldexp(np.ones_like(x), np.frexp(x)[1] - 1), np.abs(x)),
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "log2": np.log2,
    "log10": np.log10,
    "tanh": np.tanh,
    "sigmoid": reference_sigmoid,
    "softplus": reference_softplus,
    "log_sigmoid": lambda x: -reference_softplus(-x),
    "sinh": np.sinh,
    "cosh": np.cosh,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "erf": wide_scalar(math.erf),
    "erfc": wide_scalar(math.erfc),
}
LIMITS = {"F32": 2.0, "F64": 4.0}


def ulps(got: Array, reference: Array) -> Array:
    """Distance in units of the last place; infinite where NaN or the sign of a zero differs."""
    info = np.finfo(got.dtype)
    rounded = reference.astype(got.dtype)
    limit = np.longdouble(2) ** int(info.maxexp)

    def finite(values: Array, wide: Array) -> Array:
        return np.where(np.isinf(values), np.copysign(limit, wide), wide)

    spacing = np.where(np.isinf(rounded), info.max * info.epsneg, np.abs(np.spacing(rounded)))
    wide_got = got.astype(np.longdouble)
    distance = np.abs(finite(got, wide_got) - finite(rounded, reference)) / spacing
    distance = np.where((got == 0) & (rounded == 0), 0, distance)
    distance = np.where((got == 0) & (rounded == 0) & (np.signbit(got) != np.signbit(rounded)), np.inf, distance)
    distance = np.where(np.isnan(got) & np.isnan(rounded), 0, distance)
    return np.asarray(np.where(np.isnan(got) != np.isnan(rounded), np.inf, distance))


def check(name: str, got: Array, reference: Array, limit: float, *arguments: Array) -> None:
    distance = ulps(got, reference)
    worst = int(np.argmax(distance))
    where = [argument[worst] for argument in arguments]
    assert distance[worst] <= limit, (
        f"{name}: max {float(distance[worst]):.2f} ulp at {where}: {got[worst]!r}, not {reference[worst]!r}"
    )


@width
@dtype
def test_unary_accuracy(dtype: str, lanes: int, target: VectorTarget) -> None:
    kernels: dict[str, Kernel] = {
        name: lambda v, a, b, name=name: emit_unary(v, name, dtype, a)  # type: ignore[misc]
        for name in UNARY
    }
    compiled = compile_kernels(kernels, ELEMENTS[dtype], lanes, target)
    assert set(REFERENCES) == set(UNARY)
    for name in UNARY:
        x = sample(f"{name} {dtype}", 12000 if lanes == WIDTHS[0][0] else 2500)
        got = compiled.run(name, x, x)
        wide = x.astype(np.longdouble)
        reference = REFERENCES[name](wide).astype(np.longdouble)
        if name in ("log_sigmoid", "sign"):  # the sign of a zero result is free
            got, reference = got + np.zeros(1, x.dtype), reference + np.longdouble(0)
            reference[reference.astype(x.dtype) == 0] = 0
        if name == "binade":
            reference[np.abs(x) < np.finfo(x.dtype).tiny] = 0
        check(f"{name} {dtype} x{lanes}", got, reference, LIMITS[dtype], x)


def pairs(name: str) -> tuple[Array, Array]:
    kind = np.float32 if name.endswith("F32") else np.float64
    special = [0.0, 1.0, 0.5, 2.0, 3.0, np.inf, 1e-45, 1e30, 2.5, 1e-38, 7.0, 1e7]
    values = np.array([*special, *(-value for value in special), np.nan], kind)
    left, right = (grid.ravel() for grid in np.meshgrid(values, values))
    generator = np.random.default_rng(zlib.crc32(name.encode()))
    whole = generator.integers(-50, 50, (2, 2000)).astype(kind)
    near = generator.uniform(-10, 10, (2, 4000)).astype(kind)
    far_left, far_right = sample("left " + name, 2000), sample("right " + name, 2000)
    generator.shuffle(far_right)
    return (
        np.concatenate([left, whole[0], near[0], far_left]),
        np.concatenate([right, whole[1], near[1], far_right]),
    )


@width
@dtype
def test_binary_accuracy(dtype: str, lanes: int, target: VectorTarget) -> None:
    kernels: dict[str, Kernel] = {
        name: lambda v, a, b, name=name: emit_binary(v, name, dtype, a, b)  # type: ignore[misc]
        for name in BINARY
    }
    compiled = compile_kernels(kernels, ELEMENTS[dtype], lanes, target)
    a, b = pairs(f"pairs {dtype}")
    wide_a, wide_b = a.astype(np.longdouble), b.astype(np.longdouble)
    check("pow", compiled.run("pow", a, b), np.power(wide_a, wide_b), 4.0, a, b)
    positive = np.abs(a)
    check("pow", compiled.run("pow", positive, b), np.power(np.abs(wide_a), wide_b), 4.0, positive, b)
    check("atan2", compiled.run("atan2", a, b), np.arctan2(wide_a, wide_b), LIMITS[dtype], a, b)
    exact = {"floor_div": np.floor_divide, "mod": np.remainder, "rem": np.fmod}
    for name, reference in exact.items():
        check(name, compiled.run(name, a, b), reference(a, b).astype(np.longdouble), 0.0, a, b)
    for name, extremum in {"minimum": np.minimum, "maximum": np.maximum}.items():
        np.testing.assert_array_equal(compiled.run(name, a, b), extremum(a, b))


INTEGERS = {"i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64"}


def integer_pairs(kind: str) -> tuple[Array, Array]:
    info = np.iinfo(kind)
    generator = np.random.default_rng(7)
    edge = np.array([0, 1, 2, 3, 7, info.max, info.max - 1, info.min, info.min + 1], kind)
    if info.min < 0:
        edge = np.concatenate([edge, np.array([-1, -2, -7], kind)])
    left, right = (grid.ravel() for grid in np.meshgrid(edge, edge))
    random = generator.integers(info.min, info.max, (2, 3000), kind, endpoint=True)
    small = generator.integers(-9 if info.min < 0 else 0, 9, (2, 500)).astype(kind)
    return np.concatenate([left, random[0], small[0]]), np.concatenate([right, random[1], small[1]])


@width
@pytest.mark.parametrize("elem", INTEGERS)
@pytest.mark.parametrize("signed", [True, False])
def test_integer_division(elem: str, signed: bool, lanes: int, target: VectorTarget) -> None:
    kernels: dict[str, Kernel] = {
        "floor": lambda v, a, b: vector_division.floor_divide(v, elem, a, b, signed=signed),
        "mod": lambda v, a, b: vector_division.modulo(v, elem, a, b, signed=signed),
        "rem": lambda v, a, b: vector_division.remainder(v, elem, a, b, signed=signed),
        "pow": lambda v, a, b: vector_division.integer_power(v, elem, a, b, signed=signed),
    }
    compiled = compile_kernels(kernels, elem, lanes, target)
    kind = INTEGERS[elem] if signed else "u" + INTEGERS[elem]
    a, b = integer_pairs(kind)
    bits, low = np.iinfo(kind).bits, np.iinfo(kind).min

    def wrap(number: int) -> int:
        return (number - low) % (1 << bits) + low

    numbers = list(zip(a.tolist(), b.tolist(), strict=True))
    expected = {
        "floor": [0 if y == 0 else wrap(x // y) for x, y in numbers],
        "mod": [0 if y == 0 else x % y for x, y in numbers],
        "rem": [0 if y == 0 else int(math.copysign(1, x)) * (abs(x) % abs(y)) for x, y in numbers],
        "pow": [
            wrap(pow(x, y, 1 << bits)) if y >= 0 else (x if y % 2 else 1) if abs(x) == 1 else 0 for x, y in numbers
        ],
    }
    for name, values in expected.items():
        np.testing.assert_array_equal(compiled.run(name, a, b), np.array(values, kind), err_msg=name)


@width
def test_conversions(lanes: int, target: VectorTarget) -> None:
    if lanes == 1 or target is BASELINE:
        pytest.skip("half conversions of the baseline need library calls; covered by the wider targets")
    ml_dtypes = pytest.importorskip("ml_dtypes")
    kinds = {"half": np.float16, "bfloat": ml_dtypes.bfloat16, "float": np.float32, "i8": np.int8,
             "i32": np.int32, "i64": np.int64}  # fmt: skip
    x = np.concatenate([sample("conversions F64", 3000), 1 + np.arange(4096) * 2.0**-12 + 2.0**-40])
    for elem, kind in kinds.items():
        kernel: Kernel = lambda v, a, b, elem=elem: v.convert("double", elem, a)  # type: ignore[misc]  # noqa: E731
        got = compile_kernels({"k": kernel}, "double", lanes, target, elem).run("k", x, x, kind)
        if elem[0] == "i":
            info = np.iinfo(kind)
            expected = [
                0 if math.isnan(v) else info.max if v >= info.max else info.min if v <= info.min else int(v)
                for v in x.tolist()
            ]
            np.testing.assert_array_equal(got, np.array(expected, kind))
        elif elem == "bfloat":
            # ml_dtypes rounds doubles twice, so round to odd in float first.
            single = x.astype(np.float32)
            bits = single.view(np.int32).copy()
            bits -= np.abs(single.astype(np.float64)) > np.abs(x)
            bits |= (single != x) & ~np.isnan(x)
            np.testing.assert_array_equal(got.astype(np.float32), bits.view(np.float32).astype(kind).astype(np.float32))
        else:
            np.testing.assert_array_equal(got, x.astype(kind))


def test_target_choice() -> None:
    wide = dict.fromkeys(("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx2", "fma"), True)
    assert target_of_features(wide) == AVX512
    assert target_of_features({**wide, "avx512vl": False}) == AVX2
    assert target_of_features({"avx2": True, "fma": False}) == BASELINE


@width
def test_tail_mask_counts_beyond_32_bits(lanes: int, target: VectorTarget) -> None:
    module = ModuleText("tail", attributes=target.attributes)
    function = Function(module, "k", [("ptr", "a"), ("ptr", "b"), ("ptr", "o"), ("i64", "n")])
    v = VectorEmitter(function, target, lanes)
    mask = v.tail_mask(function.load("i64", "%a"))
    v.store("i8", v.convert("i1", "i8", mask), "%o")
    function.ret()
    compiled = Compiled(module.render())
    for remaining in (-(2**40), -1, 0, 1, lanes - 1, lanes, 2**32, 2**32 + 1, 2**62):
        given = np.array([remaining], np.int64)
        out = np.zeros(lanes, np.uint8)
        signature = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_int64)
        address = compiled.engine.get_function_address("k")
        signature(address)(given.ctypes.data, given.ctypes.data, out.ctypes.data, 1)
        assert out.tolist() == [int(lane < remaining) for lane in range(lanes)], remaining


@width
def test_reductions_and_indexed_memory(lanes: int, target: VectorTarget) -> None:
    module = ModuleText("reductions", attributes=target.attributes)
    function = Function(module, "k", [("ptr", "a"), ("ptr", "b"), ("ptr", "o"), ("i64", "n")])
    v = VectorEmitter(function, target, lanes)
    x = v.load_strided("float", "%a", "%n")
    results = [v.reduce_add("float", x), v.reduce_mul("float", x), v.reduce_max("float", x), v.reduce_min("float", x)]
    for position, result in enumerate(results):
        function.store("float", result, function.gep("float", "%o", position))
    reversed_offsets = v.constants("i64", [4 * (lanes - 1 - lane) for lane in range(lanes)])
    v.scatter("float", x, "%b", reversed_offsets, unit="i8")
    function.ret()
    compiled = Compiled(module.render())
    signature = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_int64)
    kernel = signature(compiled.engine.get_function_address("k"))
    for bad_lane in [None, *range(lanes)]:
        a = np.linspace(0.5, 1.5, 3 * lanes, dtype=np.float32)
        if bad_lane is not None:
            a[3 * bad_lane] = np.nan
        out, scattered = np.zeros(4, np.float32), np.zeros(lanes, np.float32)
        kernel(a.ctypes.data, scattered.ctypes.data, out.ctypes.data, 3)
        lanes_read = a[::3]
        expected = [lanes_read.sum(), lanes_read.prod(), lanes_read.max(), lanes_read.min()]
        np.testing.assert_allclose(out, expected, rtol=1e-5)
        np.testing.assert_array_equal(scattered, lanes_read[::-1])
