"""A table of results written down: plain text, Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mocaps import atomic
from mocaps.experiments.panels import MEASURES, Panel
from mocaps.experiments.results import LABELS, PROBES, Line, ResultTable
from mocaps.summary import Cell

NONE = "–"
WIDTH = 100
BEHIND = "* "
"""Before a cell of a trained line where some floor is ahead."""
CAPTION = (
    "Accuracy in % on 10,000 test motions, mean ± standard error over seeds. “accuracy” is, as in "
    "the paper, of the classifier trained along (of clusterings, of clusters matched to classes); "
    f"the others of probes fitted afterwards on frozen features with {LABELS:,} labels. Parameters "
    "include the classifier trained along."
)


@dataclass(frozen=True)
class Column:
    heading: str
    of: Callable[[Line], Cell | str | None]


def columns(table: ResultTable) -> list[Column]:
    """Of every format but CSV; the paper's numbers where it has any."""
    found = [Column("", lambda line: line.label)]
    for i, heading in enumerate(table.headings):
        found.append(Column(heading, lambda line, i=i: line.cells[i]))
    found.append(Column("parameters", lambda line: _whole(line.parameters)))
    if any(line.paper_parameters for line in table.lines):
        found.append(Column("paper's", lambda line: _thousands(line.paper_parameters)))
    found.append(Column("steps", lambda line: _whole(line.mean("steps"))))
    found.append(Column("seeds", lambda line: line.seeds))
    found.append(Column("accuracy", lambda line: line.accuracy))
    if any(line.paper for line in table.lines):
        found.append(Column("paper's", lambda line: _as_printed(line.paper)))
    for measure in PROBES:
        found.append(Column(measure.probe, lambda line, of=measure: line.measured(of)))
    return found


def text(table: ResultTable) -> str:
    """For a terminal."""
    head, groups = _grid(table, lambda cell, _: _plain(cell))
    rows = [row for group in groups for row in group]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    rule = "-" * (sum(widths) + 2 * (len(widths) - 1))

    def aligned(row: Sequence[str]) -> str:
        first, *others = zip(row, widths, strict=True)
        cells = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]
        return "  ".join(cells).rstrip()

    lines = [table.title, "", aligned(head)]
    for group in groups:
        lines += [rule, *map(aligned, group)]
    lines += [rule, *(wrapped for note in _notes(table) for wrapped in ("", *_wrapped(note)))]
    return "\n".join(lines) + "\n"


def markdown(table: ResultTable) -> str:
    """The best of each column is bold."""

    def cell_text(cell: Cell | str | None, best: bool) -> str:
        words = _plain(cell).replace("|", "\\|")
        return f"**{words}**" if best else words

    head, groups = _grid(table, cell_text)
    lines = [f"## {table.title}", "", _piped(head), _piped(["---", *["---:"] * (len(head) - 1)])]
    lines += [_piped(row) for group in groups for row in group]
    lines += [line for note in _notes(table) for line in ("", note)]
    return "\n".join(lines) + "\n"


def latex(table: ResultTable) -> str:
    """Needs booktabs; the best of each column is bold."""

    def cell_text(cell: Cell | str | None, best: bool) -> str:
        words = _tex(_plain(cell))
        return rf"\textbf{{{words}}}" if best else words

    head, groups = _grid(table, cell_text)
    spec = "l" + "r" * (len(head) - 1)
    lines = [r"\begin{table}", r"  \centering"]
    lines += [rf"  \caption{{{_tex(table.title)}. {_tex(_caption(table))}}}"]
    lines += [rf"  \label{{tab:{table.name}}}", rf"  \begin{{tabular}}{{@{{}}{spec}@{{}}}}"]
    lines += [r"    \toprule", rf"    {' & '.join(map(_tex, head))} \\"]
    for group in groups:
        lines += [r"    \midrule", *(rf"    {' & '.join(row)} \\" for row in group)]
    lines += [r"    \bottomrule", r"  \end{tabular}"]
    lines += [rf"  \par\footnotesize {_tex(note)}" for note in table.notes]
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def comma_separated(table: ResultTable) -> str:
    """Everything, one row a line: percent with two decimals, empty where there is nothing.

    Of a panel, a line holds one cell.
    """
    if table.panel is not None:
        lines = list(_cells_of(table, table.panel))
    else:
        lines = [dict(_everything(table, line)) for line in table.lines]
    file = io.StringIO()
    writer = csv.DictWriter(file, list(lines[0]) if lines else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return file.getvalue()


FORMATS: dict[str, tuple[str, Callable[[ResultTable], str]]] = {
    "text": ("txt", text),
    "markdown": ("md", markdown),
    "csv": ("csv", comma_separated),
    "latex": ("tex", latex),
}
"""The formats, each with the ending of its files."""


def write(table: ResultTable, folder: Path) -> list[Path]:
    """The table in every format."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for ending, render in FORMATS.values():
        file = folder / f"{table.name}.{ending}"
        atomic.write_text(file, render(table))
        written.append(file)
    return written


CellText = Callable[[Cell | str | None, bool], str]
"""A cell in words, given whether it is the best."""
Grid = tuple[list[str], list[list[list[str]]]]
"""Headings, and the groups of rows."""


def _grid(table: ResultTable, cell_text: CellText) -> Grid:
    """The table as text; what is best is best of its column, or in a panel of its row."""
    if table.panel is not None:
        return _panel_grid(table, table.panel, cell_text)
    wanted = columns(table)
    tops = [_top(column.of(line) for line in table.lines) for column in wanted]

    def row(line: Line) -> list[str]:
        cells = [column.of(line) for column in wanted]
        return [cell_text(cell, _is(cell, top)) for cell, top in zip(cells, tops, strict=True)]

    return [c.heading for c in wanted], [[row(line) for line in group] for group in table.groups]


def _panel_grid(table: ResultTable, panel: Panel, cell_text: CellText) -> Grid:
    head = [f"{line.label} {heading}".strip() for heading in panel.headings for line in table.lines]
    groups = []
    for group in panel.groups:
        groups.append([])
        for row in group:
            words = [cell_text(row.heading, False)]
            for measure in row.measures:
                cells = [line.measured(measure) for line in table.lines]
                of_floors = [c for c, ln in zip(cells, table.lines, strict=True) if _floor(ln)]
                top, floor = _top(cells), _top(of_floors)
                for cell, line in zip(cells, table.lines, strict=True):
                    behind = not _floor(line) and cell and floor and cell.mean < floor
                    words.append((BEHIND if behind else "") + cell_text(cell, _is(cell, top)))
            groups[-1].append(words)
    return ["", *head], groups


def _floor(line: Line) -> bool:
    return line.kind == "floor"


def _top(cells: Iterable[Cell | str | None]) -> float | None:
    return max((cell.mean for cell in cells if isinstance(cell, Cell)), default=None)


def _is(cell: Cell | str | None, top: float | None) -> bool:
    return isinstance(cell, Cell) and cell.mean == top


def _cells_of(table: ResultTable, panel: Panel) -> Iterator[dict[str, object]]:
    for row in panel.rows:
        for measure in row.measures:
            for line in table.lines:
                yield {
                    **dict(_identity(table, line)),
                    **row.record,
                    "labels": measure.labels.removesuffix(" labels").replace(",", ""),
                    **dict(_percent("accuracy", line.measured(measure))),
                }


def _identity(table: ResultTable, line: Line) -> Iterator[tuple[str, object]]:
    yield "table", table.name
    yield "experiment", line.experiment.name
    yield "label", line.label
    yield "kind", line.kind
    yield "seeds", len(line.reports)
    yield "seeds_wanted", len(line.experiment.seeds)


def _everything(table: ResultTable, line: Line) -> Iterator[tuple[str, object]]:
    yield "table", table.name
    yield "experiment", line.experiment.name
    yield "label", line.label
    yield from zip(table.headings, line.cells, strict=True)
    yield "kind", line.kind
    yield "seeds", len(line.reports)
    yield "seeds_wanted", len(line.experiment.seeds)
    yield "parameters", line.parameters
    yield "paper_parameters", line.paper_parameters
    for key in ("steps", "kept_step", "seconds"):
        mean = line.mean(key)
        yield key, None if mean is None else round(mean)
    yield from _percent("accuracy", line.accuracy)
    yield from _percent("paper_accuracy", line.paper)
    for name, measure in MEASURES.items():
        yield from _percent(name, line.measured(measure))


def _percent(name: str, cell: Cell | None) -> Iterator[tuple[str, object]]:
    yield name, None if cell is None else f"{100 * cell.mean:.2f}"
    error = None if cell is None else cell.error
    yield f"{name}_error", None if error is None else f"{100 * error:.2f}"


def _notes(table: ResultTable) -> list[str]:
    return [_caption(table), *table.notes]


def _caption(table: ResultTable) -> str:
    if table.panel is None:
        return CAPTION
    return f"{table.panel.caption}; mean ± standard error over seeds. {BEHIND}a floor is ahead."


def _plain(cell: Cell | str | None) -> str:
    if isinstance(cell, Cell):
        return f"{cell.text} {cell.error_text}".strip()
    return cell or NONE


def _as_printed(cell: Cell | None) -> str | None:
    """The paper prints two decimals."""
    if cell is None or cell.error is None:
        return None
    return f"{100 * cell.mean:.2f} ± {100 * cell.error:.2f}"


def _piped(row: Sequence[str]) -> str:
    return f"| {' | '.join(row)} |"


def _wrapped(note: str) -> list[str]:
    return textwrap.wrap(note, WIDTH, break_long_words=False, break_on_hyphens=False)


def _whole(number: float | None) -> str | None:
    return None if number is None else f"{round(number):,}"


def _thousands(number: int | None) -> str | None:
    """
    >>> _thousands(1_078_000)
    '1,078k'
    """
    return None if number is None else f"{number // 1000:,}k"


_TEX = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "#%&_${}"},
    "±": r"$\pm$",
    NONE: "--",
    "×": r"$\times$",
    "“": "``",
    "”": "''",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


def _tex(words: str) -> str:
    """
    >>> print(_tex("#Sni: 5 ± 1 %"))
    \\#Sni: 5 $\\pm$ 1 \\%
    """
    return "".join(_TEX.get(sign, sign) for sign in words)
