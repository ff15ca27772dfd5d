"""What data may be: arrays, lists, loaders, generators; by name, by position, of other libraries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import rlxlang as rlx
from rlxlang.training import evaluate

MODEL = "input x: [?n, 3]; input y: [?n]; param w: [3] = ones(); out loss = mean(square(x @ w - y));"
SINGLE = "input x: [?n, 3]; param w: [3] = ones(); out loss = mean(square(x @ w));"


class Foreign:
    """A tensor of another library, which knows DLPack alone."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()

    @property
    def shape(self) -> tuple[int, ...]:
        return self._array.shape


class Wrapped:
    """A tensor that becomes an array on demand."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self._array


class Loader:
    """Gives batches anew each time it is walked through."""

    def __init__(self, make: Callable[[int], Any]) -> None:
        self._make = make
        self.walks = 0

    def __len__(self) -> int:
        return 4

    def __iter__(self) -> Iterator[Any]:
        self.walks += 1
        return (self._make(k) for k in range(4))


@pytest.fixture(scope="module")
def arrays() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(20, 3)).astype(np.float32), rng.normal(size=20).astype(np.float32)


def trained(data: Any, epochs: int = 2) -> bytes:
    trainer = rlx.loads(MODEL).init_params(seed=0).trainer(rlx.optim.Sgd(0.1, momentum=0.9))
    trainer.fit(data, epochs, 5, shuffle=False)
    assert trainer.step_count == 4 * epochs
    return trainer.param("w").tobytes()


FORMS: dict[str, Callable[[np.ndarray, np.ndarray], Any]] = {
    "names": lambda x, y: {"x": x, "y": y},
    "pairs": lambda x, y: [("y", y), ("x", x)],
    "tuple": lambda x, y: (x, y),
    "list": lambda x, y: [x, y],
    "numbers": lambda x, y: (x.tolist(), y.tolist()),
    "float64": lambda x, y: (x.astype(np.float64), y.astype(np.float64)),
    "dlpack": lambda x, y: (Foreign(x), Foreign(y)),
    "array": lambda x, y: {"y": Wrapped(y), "x": Wrapped(x)},
}


@pytest.mark.parametrize("form", FORMS)
def test_batches_of_every_form(arrays: tuple[np.ndarray, np.ndarray], form: str) -> None:
    x, y = arrays
    loader = Loader(lambda k: FORMS[form](x[5 * k : 5 * k + 5], y[5 * k : 5 * k + 5]))
    assert trained(loader) == trained({"x": x, "y": y})
    assert loader.walks == 2
    func = rlx.loads(MODEL).init_params(seed=0)
    assert evaluate(func, loader) == pytest.approx(evaluate(func, {"x": x, "y": y}), rel=1e-6)


def test_whole_arrays_of_other_libraries(arrays: tuple[np.ndarray, np.ndarray]) -> None:
    x, y = arrays
    wanted = trained({"x": x, "y": y})
    assert trained({"x": Foreign(x), "y": Wrapped(y)}) == wanted
    assert trained({"x": x.astype(np.float64), "y": y.tolist()}) == wanted


def test_a_function_makes_a_generator_for_each_epoch(arrays: tuple[np.ndarray, np.ndarray]) -> None:
    x, y = arrays

    def batches() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for k in range(4):
            yield x[5 * k : 5 * k + 5], y[5 * k : 5 * k + 5]

    assert trained(batches) == trained({"x": x, "y": y})
    assert trained(batches(), 1) == trained({"x": x, "y": y}, 1)
    trainer = rlx.loads(MODEL).init_params(seed=0).trainer(rlx.optim.Sgd(0.1))
    with pytest.raises(rlx.RlxValueError, match="a generator gives them once"):
        trainer.fit(batches(), 2)
    with pytest.raises(rlx.RlxValueError, match="a generator gives them once"):
        trainer.fit(batches, 2, val=batches())
    used = batches()
    assert len(list(used)) == 4
    with pytest.raises(rlx.RlxValueError, match="no batches to train on"):
        trainer.fit(used, 1)
    with pytest.raises(rlx.RlxValueError, match="no rows to evaluate"):
        trainer.evaluate(used)
    assert trainer.step_count == 0


def test_the_array_of_an_only_input(arrays: tuple[np.ndarray, np.ndarray]) -> None:
    trainer = rlx.loads(SINGLE).init_params(seed=0).trainer(rlx.optim.Sgd(0.1))
    trainer.fit([arrays[0], Foreign(arrays[0])], 1)
    assert trainer.step_count == 2


@pytest.mark.parametrize(
    ("data", "kind", "message"),
    [
        (3, rlx.RlxTypeError, "int is given"),
        ("x", rlx.RlxTypeError, "str is given"),
        (dict, rlx.RlxTypeError, "the class dict"),
        (lambda: 3, rlx.RlxTypeError, "gives batches; int"),
        ([np.zeros((2, 3), np.float32)], rlx.RlxError, "mapping by name"),
        ([(np.zeros((2, 3), np.float32),)], rlx.RlxRuntimeError, "lacks the input `y`"),
        ([(1, 2, 3)], rlx.RlxError, "3 are given"),
        ([{"x": np.zeros((2, 3), np.float32)}], rlx.RlxRuntimeError, "lacks the input `y`"),
        ({"x": np.zeros((2, 3), np.int32), "y": np.zeros(2)}, rlx.RlxTypeError, "`x` is declared F32"),
    ],
)
def test_what_is_refused(data: Any, kind: type[Exception], message: str) -> None:
    trainer = rlx.loads(MODEL).init_params(seed=0).trainer(rlx.optim.Sgd(0.1))
    with pytest.raises(kind, match=message):
        trainer.fit(data)
    assert trainer.step_count == 0


def test_names_are_imported_on_first_use() -> None:
    training = rlx.training
    assert set(training.__all__) == set(training._MODULES) <= set(dir(training))
    assert all(getattr(training, name).__name__ == name for name in training.__all__)
    with pytest.raises(AttributeError, match="nothing"):
        training.nothing  # noqa: B018
