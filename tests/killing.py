"""Trains a small run over and over, killed with SIGKILL at one moment after another.

    python killing.py WHOLE RUN

WHOLE is a run that nothing interrupts. RUN is killed at its first opportunity, resumed, killed at
the second one from there, then the third, and so on until it is finished. Opportunities are every
step, and in every write the moments after opening the temporary file, half way through its bytes,
and before and after it takes its place. Each attempt is a process of its own, forked from this one
so that torch is imported once.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import small
import torch

from mocaps import atomic, launch, train

CONFIG = small.config(train__steps=12, model__activation_noise=2)


def survive() -> None:
    """An opportunity to be killed."""
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)


def dangerous_write(path: Path, data: bytes) -> None:
    with replacing(path) as temporary:
        survive()
        with temporary.open("wb") as file:
            file.write(data[: len(data) // 2])
            file.flush()
            survive()
            file.write(data[len(data) // 2 :])
        survive()
    survive()


def dangerous_step(*arguments) -> None:
    survive()
    step(*arguments)


replacing, step = atomic.replacing, train._Loop.step
left = 0


def attempt(out: Path, kill_after: int) -> bool:
    """One process; whether it finished."""
    global left
    child = os.fork()
    if child == 0:
        left = kill_after
        launch.train(CONFIG, out, resume=True)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFEXITED(status) or os.WTERMSIG(status) == signal.SIGKILL, status
    assert not os.WIFEXITED(status) or os.WEXITSTATUS(status) == 0, status
    return os.WIFEXITED(status)


def main() -> None:
    whole, out = Path(sys.argv[1]), Path(sys.argv[2])
    torch.set_num_threads(1)
    launch.data.of = small.stream
    train.SAVE_EVERY = -1.0  # after every step
    atomic.write_bytes = dangerous_write
    train._Loop.step = dangerous_step
    # What torch imports when an optimiser is first made, too.
    torch.optim.Adam([torch.zeros(1, requires_grad=True)], fused=True).zero_grad()
    assert attempt(whole, 0)
    for kill_after in range(1, 200):
        if attempt(out, kill_after):
            print(kill_after - 1)
            return


if __name__ == "__main__":
    main()
