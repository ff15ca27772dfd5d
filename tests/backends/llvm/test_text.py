from __future__ import annotations

import ctypes
from typing import Any

import pytest

from rlxlang.backends.llvm.text import Function, ModuleText

llvm = pytest.importorskip("llvmlite.binding")


def build(module: ModuleText) -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()
    parsed = llvm.parse_assembly(module.render())
    parsed.verify()
    machine = llvm.Target.from_default_triple().create_target_machine(opt=1)
    engine = llvm.create_mcjit_compiler(parsed, machine)
    engine.finalize_object()
    return engine


def call(engine: Any, name: str, *arguments: int) -> int:
    kinds = [ctypes.c_int64] * len(arguments)
    return int(ctypes.CFUNCTYPE(ctypes.c_int64, *kinds)(engine.get_function_address(name))(*arguments))


def function_of(count: int) -> tuple[ModuleText, Function]:
    module = ModuleText("m")
    return module, Function(module, "f", [("i64", f"x{index}") for index in range(count)], "i64")


def test_integer_helpers_fold_literals() -> None:
    _, f = function_of(1)
    assert f.add(2, 3) == 5
    assert f.add(2**63 - 1, 1) == -(2**63)
    assert f.mul(2**20, 2**20, "i32") == 0
    assert f.sdiv(-7, 2) == -3
    assert f.srem(-7, 2) == -1
    assert f.udiv(-1, 2) == 2**63 - 1
    assert f.urem(-1, 10, "i8") == 5
    assert f.ceil_div(17, 16) == 2
    assert f.umin(-1, 3) == 3
    assert f.smin(-1, 3) == -1
    assert f.icmp("ult", -1, 3) is False
    assert f.select(f.icmp("slt", -1, 3), "%a", "%b") == "%a"
    assert f.add("%x0", 0) == "%x0"
    assert f.mul(1, "%x0") == "%x0"
    assert f.mul("%x0", 0) == 0
    assert f.gep("float", "%p", 0) == "%p"
    assert f.zext(-1, "i8", "i64") == 255


@pytest.mark.parametrize(("start", "end", "step"), [(0, 10, 1), (3, 3, 1), (5, 2, 1), (0, 10, 3), (9, -1, -2)])
@pytest.mark.parametrize("literal", [True, False])
def test_loops_carry_values(start: int, end: int, step: int, literal: bool) -> None:
    module, f = function_of(2)
    bounds: tuple[int | str, int | str] = (start, end) if literal else ("%x0", "%x1")
    with f.loop(*bounds, step, carried=[("i64", 1), ("i64", 0)]) as loop:
        product, count = loop.carried
        loop.next(f.add(f.mul(product, 3), loop.index), f.add(count, 1))
    f.ret(f.add(f.mul(loop.results[0], 1000), loop.results[1]))
    product_expected, count_expected = 1, 0
    for index in range(start, end, step):
        product_expected, count_expected = product_expected * 3 + index, count_expected + 1
    assert call(build(module), "f", start, end) == product_expected * 1000 + count_expected


def test_nested_loops_and_branches() -> None:
    module, f = function_of(1)
    slot = f.alloca("i64", 4)
    f.store("i64", 0, slot)
    with f.loop(0, "%x0", carried=[("i64", 0)]) as outer:
        with f.loop(0, outer.index, carried=[("i64", outer.carried[0])]) as inner:
            odd = f.icmp("ne", f.and_(inner.index, 1), 0)
            with f.if_else(odd, ["i64"], weights=(1, 3)) as branch:
                with branch.then():
                    branch.merge(f.add(inner.carried[0], 10))
                with branch.otherwise():
                    branch.merge(f.add(inner.carried[0], 1))
            inner.next(branch.results[0])
        with f.if_(f.icmp("eq", outer.index, 2), [("i64", inner.results[0])], cold=True) as rare:
            f.store("i64", 100000, slot)
            rare.merge(f.add(inner.results[0], 1000))
        outer.next(rare.results[0])
    f.ret(f.add(outer.results[0], f.load("i64", slot)))
    engine = build(module)
    for trips in range(6):
        expected = 0
        for i in range(trips):
            expected += sum(10 if j % 2 else 1 for j in range(i)) + (1000 if i == 2 else 0)
        expected += 100000 if trips > 2 else 0
        assert call(engine, "f", trips) == expected


def test_early_return_and_unreachable_join() -> None:
    module, f = function_of(1)
    with f.if_(f.icmp("slt", "%x0", 0)):
        f.ret(-1)
    with f.if_else(f.icmp("sgt", "%x0", 9)) as branch:
        with branch.then():
            f.ret(9)
        with branch.otherwise():
            f.ret("%x0")
    engine = build(module)
    assert [call(engine, "f", x) for x in (-5, 4, 12)] == [-1, 4, 9]


def test_calls_globals_and_declarations() -> None:
    module = ModuleText("m")
    table = module.constant("table", "[3 x i64]", "[i64 5, i64 6, i64 7]", align=64)
    helper = Function(module, "helper", [("ptr noalias readonly", "p"), ("i64", "i")], "i64", linkage="internal")
    helper.ret(helper.smax(helper.load("i64", helper.gep("i64", "%p", "%i")), 6))
    f = Function(module, "f", [("i64", "i")], "i64")
    f.prefetch(table)
    f.memory_barrier()
    f.ret(f.call("i64", "helper", [("ptr", f.opaque("ptr", table)), ("i64", f.smax("%i", 0))]))
    text = module.render()
    assert text.count("declare i64 @llvm.smax.i64") == 1
    assert "declare i64 @helper" not in text
    engine = build(module)
    assert [call(engine, "f", i) for i in (-3, 1, 2)] == [6, 6, 7]


def test_misuse_is_reported() -> None:
    module, f = function_of(1)
    module.declare("g", "i64", ["i64"])
    with pytest.raises(ValueError, match="conflicting"):
        module.declare("g", "i32", ["i64"])
    with pytest.raises(ValueError, match="twice"):
        Function(module, "f")
    with pytest.raises(ValueError, match="reserved"):
        Function(module, "h", [("i64", "v1")])
    with pytest.raises(ValueError, match="next"), f.loop(0, 3, carried=[("i64", 0)]):
        pass
    _, unfinished = function_of(0)
    with pytest.raises(ValueError, match="terminator"):
        unfinished.render()
