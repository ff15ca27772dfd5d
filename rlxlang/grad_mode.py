"""`rlx.no_grad`: what is computed inside while a graph is built has no derivative."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ContextDecorator
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, TypeVar, overload

Function = TypeVar("Function", bound=Callable[..., Any])

_stopped: ContextVar[bool] = ContextVar("rlxlang.no_grad", default=False)


def is_stopped() -> bool:
    """Whether what is computed now is taken as constant by derivatives."""
    return _stopped.get()


class NoGrad(ContextDecorator):
    """A block, or what makes each call of a function one."""

    def __init__(self) -> None:
        self._tokens: list[Token[bool]] = []

    def __enter__(self) -> None:
        self._tokens.append(_stopped.set(True))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _stopped.reset(self._tokens.pop())

    def _recreate_cm(self) -> NoGrad:
        return NoGrad()  # calls of a function in two threads share no tokens


@overload
def no_grad() -> NoGrad: ...
@overload
def no_grad(function: Function) -> Function: ...
def no_grad(function: Callable[..., Any] | None = None) -> Any:
    """A block, or a function, whose results derivatives take as constants: `stop_gradient` of everything computed inside.

    It acts while a graph is built (`rlx.Func`, `GraphScope`, `rlx.expr`), on results of ops and of `scan`, `cond` and their like. Inputs,
    params and constants declared inside, and tensors from outside, keep their derivatives where they are used elsewhere. It has no
    influence on runs or on transforms of a finished `Func`.

    Args:
        function: Decorate this; a block `with rlx.no_grad():` when left out. `@rlx.no_grad()` decorates, too.

    Example:
        >>> with rlx.no_grad():  # doctest: +SKIP
        ...     target = teacher(x)
    """
    return NoGrad() if function is None else NoGrad()(function)
