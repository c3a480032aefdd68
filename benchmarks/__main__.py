"""`python -m benchmarks`: measures, prints, compares; see the package's docstring."""

from __future__ import annotations

import argparse
import datetime
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from rich.console import Console

from benchmarks import children, table


def main(arguments: Sequence[str] | None = None) -> int:
    options = parsed(arguments)
    if options.render:
        table.DOCUMENT.write_text(table.render())
        return 0
    if options.scaling:
        from benchmarks import scaling

        scaling.main(options.quick, options.only)
    else:
        found = measured(options.quick, options.only)
        slower = told(found, quick=options.quick)
        if options.strict and slower:
            return 1
        if options.record:
            table.write(table.RECORDED, found)
    if (options.record or options.scaling) and not options.quick:
        table.DOCUMENT.write_text(table.render())
    return 0


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="see that all works; compares nothing")
    parser.add_argument("--only", nargs="+", default=[], help="some rows, or axes of --scaling")
    parser.add_argument("--strict", action="store_true", help="exit code 1 after a regression")
    parser.add_argument("--record", action="store_true", help="make these the recorded rows")
    parser.add_argument("--scaling", action="store_true", help="time and memory against sizes")
    parser.add_argument("--render", action="store_true", help="only put results into the document")
    options = parser.parse_args(arguments)
    if options.record and (options.quick or options.only):
        parser.error(
            "expected --record without --quick and --only: all rows of one run, measured well"
        )
    return options


def measured(quick: bool, only: Sequence[str]) -> dict[str, Any]:
    """All rows, or some, each in a process of its own."""
    from benchmarks.rows import MEASURED, derived

    for name in only:
        if name not in MEASURED:
            raise SystemExit(
                f"benchmarks: --only: expected rows among {', '.join(MEASURED)}, got {name!r}"
            )
    console, start, rows = Console(stderr=True), time.perf_counter(), {}
    for name in only or MEASURED:
        function, arguments = MEASURED[name]
        with console.status(f"measuring {name}"):
            rows[name] = children.call("rows", function, quick=quick, **arguments)
    return {
        "machine": machine(),
        "product": statistics.median(row["product"] for row in rows.values()),
        "seconds": round(time.perf_counter() - start, 1),
        "quick": quick,
        "rows": rows | derived(rows),
    }


def told(found: dict[str, Any], *, quick: bool) -> list[str]:
    """Prints and keeps the rows; those that regressed."""
    recorded = {} if quick else table.read(table.RECORDED)
    if not quick:
        table.write(table.LATEST, found)
    console = Console()
    console.print(table.comparison(found, recorded))
    console.print(
        f"The product took {1e6 * found['product']:.0f} µs; all took {found['seconds']:.0f} s."
    )
    if (waited := table.waited(found)) > 0.1:
        console.print(
            f"The machine is busy: up to {100 * waited:.0f}% longer on the wall than on the CPU."
        )
    if quick:
        console.print("Quick figures: too few laps, and one smaller shape; compared with nothing.")
    slower = table.regressions(found, recorded)
    if slower:
        console.print(
            f"slower than recorded by more than {100 * table.SLOWER:.0f}%: {', '.join(slower)}",
            style="bold red",
        )
    return slower


def machine() -> dict[str, Any]:
    """What the figures depend on beside the code."""
    import torch

    from benchmarks.measuring import cpu_model

    return {
        "cpu": cpu_model(),
        "torch": torch.__version__,
        "python": sys.version.split()[0],
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "commit": _git("rev-parse", "--short", "HEAD"),
        "changed": bool(_git("status", "--porcelain", "--untracked-files=no", "--", "src")),
    }


def _git(*arguments: str) -> str:
    """What git says; nothing where there is none."""
    try:
        command = ["git", "-C", str(children.ROOT), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


if __name__ == "__main__":
    sys.exit(main())
