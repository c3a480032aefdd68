"""Documents that show a table of results have its place marked, and are filled from reports alone:

<!-- table: t20 -->
<!-- end of table -->
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from mocaps import atomic
from mocaps.errors import InputError

_PLACE = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end of table -->)", re.DOTALL)


def documents(folder: Path) -> list[Path]:
    """README and what lies in docs, below the folder that holds the experiments."""
    return [f for f in (folder / "README.md", *sorted(folder.glob("docs/*.md"))) if f.exists()]


def fill(files: Sequence[Path], tables: Mapping[str, str]) -> list[Path]:
    """Puts the rows of Markdown tables into the places marked for them; the files that changed."""
    changed = []
    for file in files:
        old = file.read_text()

        def rows(place: re.Match[str], file: Path = file) -> str:
            if place[2] not in tables:
                raise InputError(
                    f"{file}: expected a table among {', '.join(tables)}, got {place[2]!r}"
                )
            lines = [line for line in tables[place[2]].splitlines() if line.startswith("|")]
            return place[1] + "\n" + "\n".join(lines) + "\n\n" + place[3]

        new = _PLACE.sub(rows, old)
        if new != old:
            atomic.write_text(file, new)
            changed.append(file)
    return changed
