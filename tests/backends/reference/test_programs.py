from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from rlxlang.backends.reference import ReferenceBackend
from rlxlang.diagnostics.errors import InternalError
from rlxlang.kernels import (
    Accumulator,
    AxisValue,
    Buffer,
    Const,
    Contract,
    Copy,
    Index,
    Load,
    Loop,
    Nest,
    Operand,
    Pass,
    Program,
    Reduced,
    Store,
    Window,
)
from rlxlang.types import F32, F64, I64


def load_programs() -> ModuleType:
    if "backend_programs" not in sys.modules:
        file = Path(__file__).resolve().parents[1] / "programs.py"
        spec = importlib.util.spec_from_file_location("backend_programs", file)
        assert spec is not None
        assert spec.loader is not None
        sys.modules["backend_programs"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules["backend_programs"])
    return sys.modules["backend_programs"]


programs = load_programs()


@pytest.mark.parametrize("name", programs.EXAMPLES)
def test_example(name: str, rng: np.random.Generator) -> None:
    programs.check(ReferenceBackend(), programs.EXAMPLES[name](rng))


def buffers(**more: str) -> tuple[Buffer, ...]:
    return (
        Buffer(0, "input", F32, (4,), "x"),
        Buffer(1, "output", F32, (4,), "y"),
        Buffer(2, more.get("third", "temp"), F32, (4,)),
    )


def program(*steps: Nest | Contract | Copy | Loop, arena: int = 64, third: str = "temp") -> Program:
    return Program("p", (), buffers(third=third), steps, (), arena, 1, (1,))


HERE = Index(0, (1,))


def map_of(value: object, index: Index = HERE, buffer: int = 1) -> Nest:
    return Nest("map", (4,), (), (Pass((), (Store(buffer, index, value),)),))  # type: ignore[arg-type]


X = Load(0, Index(0, (1,)), F32)
BROKEN = {
    "reads past the end": program(map_of(Load(0, Index(1, (1,)), F32))),
    "reads before the start": program(map_of(Load(0, Index(-1, (1,)), F32))),
    "writes past the end": program(map_of(X, Index(1, (1,)))),
    "writes an input": program(map_of(X, buffer=0)),
    "lacks strides": program(map_of(Load(0, Index(0, ()), F32))),
    "reads an unknown reduction": program(map_of(Reduced("s", F32))),
    "reads an accumulator": program(map_of(Accumulator(F32))),
    "temporary outside the arena": program(map_of(X), arena=8),
    "view without a loop": program(map_of(X, buffer=2), third="view"),
    "window outside": program(Loop("l", 3, (map_of(X, buffer=2),), (Window(2, 0, 1),)), third="view"),
    "copy of another size": Program(
        "p", (), (*buffers(), Buffer(3, "temp", F64, (4,), offset=16)), (Copy(0, 3),), (), 64, 1, (1,)
    ),
    "operand outside": program(Contract("c", (), 2, 2, 3, Operand(0, 0, (), 3, 1), Operand(0, 0, (), 1, 1), 1, F32)),
    "target too small": program(Contract("c", (), 3, 2, 1, Operand(0, 0, (), 1, 1), Operand(0, 0, (), 1, 1), 1, F32)),
    "mixed dtypes": program(map_of(programs.call("add", X, AxisValue(0, I64), dtype=F32))),
}


@pytest.mark.parametrize("name", BROKEN)
def test_faults_of_lowering_raise(name: str) -> None:
    with pytest.raises(InternalError):
        ReferenceBackend().compile(BROKEN[name]).run({0: np.ones(4, np.float32)}, {})


def test_what_where_hides_is_not_read() -> None:
    inside = programs.call("lt", AxisValue(0, I64), Const(2, I64))
    hidden = program(map_of(Load(0, Index(2, (1,)), F32, inside, 7.0)))
    (result,) = ReferenceBackend().compile(hidden).run({0: np.arange(4, dtype=np.float32)}, {})
    assert result.tolist() == [2, 3, 7, 7]


def test_reading_before_writing_shows() -> None:
    (result,) = (
        ReferenceBackend().compile(program(map_of(Load(2, Index(0, (1,)), F32)))).run({0: np.ones(4, np.float32)}, {})
    )
    assert np.isnan(result).all()


def test_large_domains_are_cut() -> None:
    """More points than are evaluated at once, along an axis that is not the first."""
    n = (1 << 21) + 5
    both = (Buffer(0, "input", F32, (2, n), "x"), Buffer(1, "output", F32, (n, 2), "y"))
    nest = Nest("t", (2, n), (), (Pass((), (Store(1, Index(0, (1, 2)), Load(0, Index(0, (n, 1)), F32)),)),))
    x = np.arange(2 * n, dtype=np.float32).reshape(2, n)
    (result,) = ReferenceBackend().compile(Program("p", (), both, (nest,), (), 0, 1, (1,))).run({0: x}, {})
    np.testing.assert_array_equal(result, x.T)


@pytest.mark.parametrize(("result", "expected"), [("array", 3.0), ("tuple", (3.0,)), ("float", 3.0)])
def test_bind(result: str, expected: object) -> None:
    p = programs.Maker("p", "?n")
    x, w, y = p.add("input", F32, programs.N), p.add("param", F32, 1), p.add("output", F32, programs.N)
    value = programs.call("mul", p.load(x, 1), Load(w, Index(0, (0,)), F32))
    executable = ReferenceBackend().compile(
        p.program(programs.one_pass("m", (programs.N,), Store(y, Index(0, (1,)), value)))
    )

    def prepare(args: tuple[object, ...]) -> tuple[list[np.ndarray], dict[str, int]]:
        array = np.asarray(args[0], np.float32)
        return [array], {"?n": array.size}

    function = executable.bind({w: np.array([2], np.float32)}, prepare, result, "f")
    assert function([1.5]) == expected
