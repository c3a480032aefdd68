"""Commands of mocaps in processes of their own, some at a time. Imports no torch."""

from __future__ import annotations

import concurrent.futures
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence

INTERRUPTED = 130
POLL = 0.2  # seconds

Ended = tuple[int, str]
"""A child's exit code, and its last words: what it printed last that was no JSON."""


def cores() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def side_by_side(
    commands: Mapping[str, Sequence[str]],
    *,
    hear: Callable[[str, str], None],
    stop: Callable[[], bool],
    workers: int | None = None,
    ready: Callable[[str], bool] = lambda _: True,
    begun: Callable[[str], None] = lambda _: None,
    ended: Callable[[str, Ended], None] = lambda *_: None,
) -> dict[str, Ended]:
    """Runs `python -m mocaps` with each command's arguments, one process a core.

    `hear` receives each line of JSON that a child prints. A command that is not `ready` is passed
    over for the next that is, and tried again. When `stop` says so, every child gets one SIGINT and
    nothing new begins; what did not begin counts as interrupted. The children are sessions of their
    own, so that only this process decides when they are interrupted.
    """
    crew = _Crew(commands, hear, stop, ready, begun, ended)
    count = min(len(commands), workers or cores())
    if count == 0:
        return {}
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        try:
            waiting, told = {pool.submit(crew.work) for _ in range(count)}, False
            while waiting:
                done, waiting = concurrent.futures.wait(waiting, timeout=POLL)
                if stop() and not told:
                    told = True
                    crew.tell(signal.SIGINT)
                for future in done:
                    future.result()
        except BaseException:  # a second Ctrl-C, or a fault of ours: at once
            crew.abandon()
            raise
    return {name: crew.results.get(name, (INTERRUPTED, "")) for name in commands}


class _Crew:
    """Threads that take commands from one list, and the child of each."""

    def __init__(
        self,
        commands: Mapping[str, Sequence[str]],
        hear: Callable[[str, str], None],
        stop: Callable[[], bool],
        ready: Callable[[str], bool],
        begun: Callable[[str], None],
        ended: Callable[[str, Ended], None],
    ) -> None:
        self.commands, self.hear, self.stop = commands, hear, stop
        self.ready, self.begun, self.ended = ready, begun, ended
        self.waiting = list(commands)
        self.children: dict[str, subprocess.Popen[str]] = {}
        self.results: dict[str, Ended] = {}
        self.lock = threading.Lock()
        self.left = threading.Event()

    def work(self) -> None:
        while not self.stop() and not self.left.is_set():
            name = self.begin()
            if name is None:
                if not self.waiting:
                    return
                self.left.wait(5 * POLL)
                continue
            self.begun(name)
            self.results[name] = result = self.attend(name)
            self.ended(name, result)

    def begin(self) -> str | None:
        """Begins the first command that is ready."""
        with self.lock:  # which also keeps a child from beginning after the others were told
            name = next((n for n in self.waiting if self.ready(n)), None)
            if name is None or self.stop() or self.left.is_set():
                return None
            self.waiting.remove(name)
            self.children[name] = subprocess.Popen(
                [sys.executable, "-m", "mocaps", *self.commands[name]],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
                env=os.environ | {"OMP_NUM_THREADS": "1"},
            )
        return name

    def attend(self, name: str) -> Ended:
        child = self.children[name]
        last = ""
        assert child.stdout is not None
        for line in child.stdout:
            if line.startswith("{"):
                if line.endswith("}\n"):  # else torn by a kill
                    self.hear(name, line)
            elif line.strip():
                last = line.strip()
        code = child.wait()
        # Where it was interrupted before it could say so, Python dies of the signal.
        return INTERRUPTED if code == -signal.SIGINT else code, last

    def tell(self, number: signal.Signals) -> None:
        with self.lock:
            for child in self.children.values():
                if child.poll() is None:
                    child.send_signal(number)

    def abandon(self) -> None:
        self.left.set()
        self.tell(signal.SIGKILL)
