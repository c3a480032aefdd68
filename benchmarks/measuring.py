"""Clocks and memory: each lap of work stands between two timings of the same matrix product.

The clock is the process's CPU time. With one thread on a quiet machine that is the time on the
wall; on a shared one it leaves out the waiting for a core, which says nothing about the code. What
neighbours do to the caches remains, in the product as in the work, and partly leaves the ratio.
Medians over laps keep the odd one out.
"""

from __future__ import annotations

import contextlib
import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

SHAPE = (128, 64, 2560)  # of the reference: (128, 64) by (64, 2560), 42 MFLOP
PRODUCTS = 7  # of which the quickest counts: the first ones find cold caches


class Product:
    """The unit of all ratios; a call gives its seconds now."""

    def __init__(self) -> None:
        rows, inner, columns = SHAPE
        self.a, self.b = torch.randn(rows, inner), torch.randn(inner, columns)
        self.out = torch.empty(rows, columns)
        for _ in range(20):
            self()

    def __call__(self) -> float:
        def once() -> float:
            start = time.process_time()
            torch.mm(self.a, self.b, out=self.out)
            return time.process_time() - start

        return min(once() for _ in range(PRODUCTS))


@dataclass
class Laps:
    """Work that is done over and over, lap by lap; as `stop` of `mocaps.train.fit`, steps.

    The first lap warms up and is forgotten.
    """

    count: int
    """Laps to keep."""
    units: int = 1
    """Units of work (steps, calls) in a lap."""
    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    products: list[float] = field(default_factory=list)
    _done: int = 0
    _start: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        self._product = Product()

    def __call__(self) -> bool:
        """Before each unit, and after the last: whether all laps are done."""
        lap, inside = divmod(self._done, self.units)
        self._done += 1
        if inside:
            return False
        if lap:
            self.cpu.append(time.process_time() - self._start[0])
            self.wall.append(time.perf_counter() - self._start[1])
        self.products.append(self._product())
        if lap > self.count:
            return True
        self._start = time.process_time(), time.perf_counter()
        return False

    def run(self, work: Callable[[], object]) -> Laps:
        while not self():
            work()
        return self

    def result(self, unit: float = 1.0) -> dict[str, Any]:
        """Medians for one unit of work, or for `unit` of them."""
        share = unit / self.units
        around = [(a + b) / 2 for a, b in zip(self.products, self.products[1:], strict=False)]
        ratios = [share * c / p for c, p in zip(self.cpu[1:], around[1:], strict=True)]
        quartiles = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
        return {
            "seconds": share * statistics.median(self.cpu[1:]),
            "wall": share * statistics.median(self.wall[1:]),
            "ratio": statistics.median(ratios),
            "quartiles": [quartiles[0], quartiles[2]],
            "product": statistics.median(self.products),
            "laps": self.count,
        }


class Memory:
    """The most that the process held since this was made, beyond what it held then.

    Linux tells it of the process alone, while `ru_maxrss` also remembers the parent's before exec.
    """

    def __init__(self) -> None:
        # Without it the peak counts from the start of the process: an import's is soon passed.
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")
        self.before = resident()["VmRSS"]
        self.own_before = resident()["RssAnon"]
        self.own_peak = self.own_before

    def peak(self) -> int:
        """Bytes, with the pages of mapped files that were read."""
        return resident()["VmHWM"] - self.before

    def sample(self, *_: object) -> None:
        """Looks at the process's own memory, without mapped files: the kernel keeps no peak of
        it."""
        self.own_peak = max(self.own_peak, resident()["RssAnon"])

    def own(self) -> int:
        """Bytes of its own, at the fullest sample."""
        return self.own_peak - self.own_before


def resident() -> dict[str, int]:
    """Lines of /proc/self/status that count memory, in bytes."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except FileNotFoundError:
        raise SystemExit("benchmarks: expected Linux's /proc to read memory from") from None
    fields = (line.split() for line in lines if line.endswith(" kB"))
    return {words[0].rstrip(":"): 1024 * int(words[1]) for words in fields}


def cpu_model() -> str:
    """What Linux calls the processor, with its cores."""
    name = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
    return f"{name}, {os.cpu_count()} cores"
