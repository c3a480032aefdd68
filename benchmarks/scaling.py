"""How time and memory grow with one size while the others stay: against what the maths says.

Cost is a fixed part plus one that grows, so that a fitted exponent (the slope of log cost over log
size) lies below the expected one and nears it at the end. Grows faster: more than `TOLERANCE`
above.
"""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks import children, table

RESULT = table.RESULTS / "scaling.json"
PICTURE = children.ROOT / "docs" / "pictures" / "scaling.svg"
TOLERANCE = 0.15
MARGIN = 2 * 10**9  # bytes of the disk to leave free


@dataclass(frozen=True)
class Axis:
    """One size, and the exponents of time and memory that the mathematics gives."""

    label: str
    sizes: tuple[int, ...]
    quick: tuple[int, ...]
    setting: str | None
    """Of the configuration; None for the sequences of a file."""
    why: str
    time: float = 1.0
    memory: float = 1.0


AXES = {
    "batch": Axis(
        "batch size",
        (16, 32, 64, 128, 256, 512, 1024),
        (16, 64),
        "train.batch_size",
        "all of Eq. 1 to 6 once a sequence; the square of Eq. 7 is small up to 1,024",
    ),
    "L": Axis(
        "L, steps",
        (32, 64, 128, 256),
        (32, 64),
        "model.length",
        "snippets of 8 steps, each convolved, read and decoded once",
    ),
    "M": Axis(
        "M, segment capsules",
        (20, 40, 80, 160, 320),
        (20, 80),
        "model.num_segment_capsules",
        "one head and one term of Eq. 4 a capsule",
    ),
    "K": Axis(
        "K, points",
        (1, 2, 5, 10, 20),
        (1, 2),
        "model.num_points",
        "points are folded into the batch",
    ),
    "sequences": Axis(
        "sequences embedded",
        (10_000, 100_000, 1_000_000, 10_000_000),
        (10_000, 30_000),
        None,
        "one pass over a mapped file, batch by batch",
        memory=0.0,
    ),
}


def main(quick: bool, only: Sequence[str]) -> None:
    """Measures, prints, keeps, draws."""
    from rich.console import Console

    from benchmarks.__main__ import machine

    for name in only:
        if name not in AXES:
            raise SystemExit(
                f"benchmarks: --only: expected axes among {', '.join(AXES)}, got {name!r}"
            )
    console = Console()
    axes = {}
    for name in only or AXES:
        axes[name] = measured(AXES[name], quick, console)
    result = {"machine": machine(), "quick": quick, "axes": axes}
    if not quick:
        before = table.read(RESULT).get("axes", {})
        known = before | axes
        result["axes"] = {name: known[name] for name in AXES if name in known}
        table.write(RESULT, result)
        draw(result)
        console.print(f"{RESULT}\n{PICTURE}")
    console.print(markdown(result), markup=False, soft_wrap=True)


def measured(axis: Axis, quick: bool, console: Any) -> dict[str, Any]:
    """The points of an axis, each as soon as it has come."""
    sizes = axis.quick if quick else axis.sizes
    points, notes = [], ""
    with tempfile.TemporaryDirectory(prefix="mocaps-scaling.") as folder:
        if axis.setting is None:
            sizes, notes = fitting(sizes, shutil.disk_usage(folder).free)
        for size in sizes:
            if axis.setting is None:
                found = children.call("points", "embed", count=size, folder=folder)
            else:
                settings = {axis.setting: str(size)}
                found = children.call("points", "step", settings=settings, quick=quick)
            points.append({"size": size} | found)
            line = (
                f"{axis.label} {size:,}: {duration(found['seconds'])}, {megabytes(found['bytes'])}"
            )
            if "with_mapped" in found:
                line += f", {megabytes(found['with_mapped'])} with the mapped file"
            console.print(line, highlight=False)
    return {"points": points, "notes": notes, **judged(axis, points)}


def fitting(sizes: Sequence[int], free: int) -> tuple[list[int], str]:
    """Numbers of sequences whose files the disk can hold; what is too much becomes less."""
    from benchmarks.points import bytes_on_disk

    room = (free - MARGIN) / bytes_on_disk(1)
    kept = [size for size in sizes if size <= room]
    if len(kept) == len(sizes):
        return kept, ""
    if room >= 3_000_000 and 3_000_000 not in kept:
        kept.append(3_000_000)
    if not kept:
        raise SystemExit("benchmarks: expected room on the disk for 10,000 sequences, found none")
    return kept, f"the disk had room for {kept[-1]:,} sequences only"


def slope(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """The exponent of the power law that fits best (least squares of the logarithms).

    >>> slope([1, 2, 4], [3, 12, 48])
    2.0
    """
    x = [math.log(s) for s in sizes]
    y = [math.log(max(c, 1e-12)) for c in costs]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    covariance = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return covariance / sum((a - mean_x) ** 2 for a in x)


def judged(axis: Axis, points: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Exponents of time and memory, over all sizes and over the larger half."""
    result = {}
    sizes = [p["size"] for p in points]
    late = min(len(points) // 2, len(points) - 2)
    for cost, key, expected in (
        ("time", "seconds", axis.time),
        ("memory", "bytes", axis.memory),
    ):
        # A megabyte more or less says nothing about growth.
        values = [max(p[key], 1e6) if key == "bytes" else p[key] for p in points]
        whole, end = slope(sizes, values), slope(sizes[late:], values[late:])
        faster = max(whole, end) > expected + TOLERANCE
        result[cost] = {"expected": expected, "all": whole, "end": end, "faster": faster}
    return result


def markdown(result: dict[str, Any]) -> str:
    """The exponents as docs/performance.md shows them."""
    if not result:
        return "Not measured yet.\n"
    lines = [
        "| size | from, to | time | expected | fitted, at the end "
        "| memory | expected | fitted, at the end |",
        "|---|---|---|---:|---:|---|---:|---:|",
    ]
    notes = []
    for name, found in result["axes"].items():
        axis, points = AXES[name], found["points"]
        first, last = points[0], points[-1]
        row = [axis.label, f"{first['size']:,}, {last['size']:,}"]
        for cost, key, shown in (("time", "seconds", duration), ("memory", "bytes", megabytes)):
            fit = found[cost]
            verdict = " **grows faster**" if fit["faster"] else ""
            row += [
                f"{shown(first[key])}, {shown(last[key])}",
                f"{fit['expected']:g}",
                f"{fit['all']:.2f}, {fit['end']:.2f}{verdict}",
            ]
        lines.append(f"| {' | '.join(row)} |")
        if found["notes"]:
            notes.append(f"Of {axis.label}: {found['notes']}.")
        if "with_mapped" in last:
            notes.append(
                "Memory of embedding is the process's own; pages of the mapped file, which the "
                f"system takes back when it needs them, made it {megabytes(first['with_mapped'])} "
                f"and {megabytes(last['with_mapped'])} at its fullest."
            )
    m = result["machine"]
    notes.append(f"{m['date']}, commit {m['commit']}, torch {m['torch']}, {m['cpu']}.")
    return "\n".join([*lines, "", *notes]) + "\n"


def duration(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"


def megabytes(count: float) -> str:
    return f"{count / 1e9:.3g} GB" if count >= 1e9 else f"{count / 1e6:.3g} MB"


def draw(result: dict[str, Any]) -> None:
    from benchmarks.picture import picture

    PICTURE.write_text(picture(result["axes"]))
