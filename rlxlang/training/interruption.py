"""Ctrl-C during training: it waits until the step is whole."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType


class Interruption:
    """Holds the interrupt signal back while it is entered, so that no step is left half done.

    A second Ctrl-C interrupts at once. Where the signal cannot be held back (another thread, or somebody else handles it) nothing
    changes.

    Attributes:
        is_wanted: Whether Ctrl-C has been pressed.
    """

    def __init__(self) -> None:
        self.is_wanted = False
        self._is_installed = False

    def __enter__(self) -> Interruption:
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._note)
            self._is_installed = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_installed:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.is_wanted:
            signal.default_int_handler(number, frame)
        self.is_wanted = True
