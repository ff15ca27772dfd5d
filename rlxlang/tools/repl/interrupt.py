"""Work that Ctrl-C ends, compiled code included: it runs beside the thread that gets the signal."""

from __future__ import annotations

import contextvars
import ctypes
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_PATIENCE = 0.5  # seconds that Python code gets to end after an interrupt

_abandoned: list[threading.Event] = []


class _Stop(SystemExit):  # which ends a thread without a word
    """Raised in the thread of work that nobody waits for any more."""


def interruptible(work: Callable[[], T]) -> T:
    """The result of `work`, which runs in a thread of its own when this is the main thread.

    Python code of it is stopped by Ctrl-C. Compiled code cannot be: it goes on by itself, and what it computes is dropped.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed; with a text when something goes on.
        BaseException: What `work` raises.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    results: list[T] = []
    problems: list[BaseException] = []
    context = contextvars.copy_context()
    ended = threading.Event()  # a `join` that is interrupted may take a thread for ended that is not

    def run() -> None:
        try:
            results.append(context.run(work))
        except BaseException as problem:  # raised again by whoever waits
            problems.append(problem)
        finally:
            ended.set()

    thread = threading.Thread(target=run, name="rlx-evaluation", daemon=True)
    thread.start()
    try:
        while not ended.wait(60.0):
            pass
    except KeyboardInterrupt:
        _stop(thread, ended)
        raise
    if problems:
        raise problems[0]
    return results[0]


def _stop(thread: threading.Thread, ended: threading.Event) -> None:
    assert thread.ident is not None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(_Stop))
    if not ended.wait(_PATIENCE):
        _abandoned.append(ended)
        raise KeyboardInterrupt("compiled code cannot be stopped: it goes on until it ends, and its result is dropped")


def is_busy() -> bool:
    """Whether work that was interrupted still goes on."""
    return not all(ended.is_set() for ended in _abandoned)
