"""Ctrl-C as a request that training answers after its step."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Within, Ctrl-C and a polite kill are only noted, for the given function to tell; a second
    Ctrl-C acts at once. Works in the main thread alone, as signals do."""
    noted = False

    def note(number: int, _: object) -> None:
        nonlocal noted
        if noted and number == signal.SIGINT:
            raise KeyboardInterrupt
        noted = True

    before = {s: signal.signal(s, note) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
