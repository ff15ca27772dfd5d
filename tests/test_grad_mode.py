"""`rlx.no_grad`: a block and a decorator, for ops, indices, combinators and expressions."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import rlxlang as rlx

X = np.array([0.5, -1.0, 2.0], np.float32)


def _slopes(build: object) -> np.ndarray:
    return rlx.Func("f", build).grad(["x"]).run(x=X)[0]  # type: ignore[arg-type]


def test_a_block() -> None:
    def build(s: rlx.GraphScope) -> rlx.Tensor:
        x = s.input("x", [3])
        y = x * x
        with rlx.no_grad():
            k = y * 3.0  # constant, though y is not
            with rlx.no_grad():
                k = k + x
            m = x[1]
        return (k * x + y).sum() + m

    np.testing.assert_allclose(_slopes(build), 3 * X**2 + X + 2 * X, rtol=1e-6)
    forward = rlx.Func("f", build).jvp(["x"]).run(x=X, tangent_x=np.ones(3))[1]
    np.testing.assert_allclose(forward, (3 * X**2 + 3 * X).sum(), rtol=1e-6)


@pytest.mark.parametrize("decorate", [rlx.no_grad, rlx.no_grad()])
def test_a_decorator(decorate: object) -> None:
    @decorate  # type: ignore[operator, untyped-decorator]
    def target(x: rlx.Tensor) -> rlx.Tensor:
        """Square."""
        return x * x

    assert target.__name__ == "target"
    assert target.__doc__ == "Square."

    def build(s: rlx.GraphScope) -> rlx.Tensor:
        x = s.input("x", [3])
        return ((x - target(x)) ** 2.0).sum() + (target(x) * x).sum()

    np.testing.assert_allclose(_slopes(build), 2 * (X - X**2) + X**2, rtol=1e-6)


def test_combinators_and_expressions() -> None:
    def build(s: rlx.GraphScope) -> rlx.Tensor:
        x = s.input("x", [3])
        with rlx.no_grad():
            kept = [
                rlx.scan(lambda c, t: (c + t * t, t), s.constant(0.0), x)[0],
                rlx.while_loop(lambda c: c < 10.0, lambda c: c * 2.0 + x.sum(), x.sum()),
                rlx.cond(x.sum() > 0.0, lambda: x, lambda: -x),
                rlx.remat(lambda v: v.exp())(x),
                rlx.custom_jvp(lambda v: v * v, lambda v, dv: dv)(x),
                rlx.expr("x * 2.0 + sum(x)", x=x),
                rlx.cat([x, x]),
                x.reshape([3]),
                -x,
                +x,
            ]
        return sum((k * 1.0).sum() for k in kept) + x.sum()  # type: ignore[return-value]

    assert _slopes(build).tolist() == [1, 1, 1]


def test_declarations_and_integers_are_left_alone() -> None:
    def build(s: rlx.GraphScope) -> dict[str, rlx.Tensor]:
        with rlx.no_grad():
            x = s.input("x", [3])
            i = (x > 0.0).cast("I32") + 1
        return {"loss": (x * x).sum(), "i": i}

    func = rlx.Func("f", build)
    np.testing.assert_allclose(func.grad(["x"]).run(x=X)[0], 2 * X)
    assert func.run(x=X)[1].tolist() == [2, 1, 2]


def test_it_ends_with_the_block_and_stays_in_its_thread() -> None:
    def build(s: rlx.GraphScope) -> rlx.Tensor:
        x = s.input("x", [3])
        with pytest.raises(ValueError, match="inside"), rlx.no_grad():
            raise ValueError("inside")
        return (x * x).sum()

    found: list[np.ndarray] = []
    with rlx.no_grad():
        other = threading.Thread(target=lambda: found.append(_slopes(build)))
        other.start()
        other.join()
    np.testing.assert_allclose(found[0], 2 * X)
    np.testing.assert_allclose(_slopes(build), 2 * X)
