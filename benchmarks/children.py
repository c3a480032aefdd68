"""Measurements in processes of their own: the memory of one is no part of another's.

`python -m benchmarks.children MODULE FUNCTION ARGUMENTS` calls a function of this package with
keyword arguments in JSON, on one thread, and prints its result as the last line.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
HANGS = 1800  # seconds
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def call(module: str, function: str, **arguments: Any) -> Any:
    """The result of `benchmarks.module.function(**arguments)`, measured elsewhere."""
    command = [sys.executable, "-m", "benchmarks.children", module, function]
    done = subprocess.run(
        [*command, json.dumps(arguments)],
        cwd=ROOT,
        env=os.environ | ONE_THREAD,
        stdout=subprocess.PIPE,
        text=True,
        timeout=HANGS,
    )
    if done.returncode:
        raise SystemExit(f"benchmarks: {module}.{function}({arguments}) ended with an error")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    from mocaps import process

    process.settle()
    module, function, arguments = sys.argv[1:]
    found = getattr(importlib.import_module(f"benchmarks.{module}"), function)
    print(json.dumps(found(**json.loads(arguments))))


if __name__ == "__main__":
    main()
