"""The demo: from nothing to a table and a page, stopped, taken up again and replaced."""

import contextlib
import io
import json

import pytest
from rich.console import Console

from mocaps import demo as demos
from mocaps import report, runs, summary
from mocaps.errors import InputError

MINUTES = 0.02


def evaluation(run, floors) -> dict:
    """As mocaps.evaluate gives it, without the minute that its probes take."""
    by_budget = {
        str(budget): {"mean": 0.1234, "standard_error": None} for budget in (200, 2000, 10000)
    }
    scores = {
        "logistic": by_budget,
        "nearest_neighbour": {"cosine": by_budget, "euclidean": by_budget},
    }
    assert floors == "floors"
    floors = dict.fromkeys(summary.FLOORS, scores)
    return {
        "online_probe": 0.05,
        "test": {"name": "t20 test", "sequences": 10_000},
        "steps": run.step,
        **scores,
        "floors": floors,
    }


@pytest.fixture
def call(tmp_path, monkeypatch):
    """Calls the demo in tmp_path and returns the page's path and what was printed."""
    monkeypatch.setattr(demos, "evaluate", evaluation)
    monkeypatch.setattr(demos, "beside", lambda _: contextlib.nullcontext(lambda: "floors"))
    monkeypatch.setattr(report, "render", lambda run: f"<p>{run.step}</p>")

    def run(seed: int = 0, **options):
        console = Console(file=io.StringIO(), width=80)
        out = tmp_path / "demo"
        page = demos.demo(out, MINUTES, seed, console=console, **options)
        return page, console.file.getvalue()

    return run


def test_the_demo_trains_prints_one_table_and_names_its_page_last(call, tmp_path):
    page, printed = call()
    assert page == tmp_path / "demo" / "report.html"
    saved = runs.read_report(page.parent)
    assert page.read_text() == f"<p>{saved['steps']}</p>"
    assert 1 <= saved["steps"] < 1000
    assert 0.9 * 60 * MINUTES <= saved["seconds"] < 30
    assert saved["evaluation"]["online_probe"] == 0.05
    lines = printed.strip().splitlines()
    assert lines[-1].endswith(str(page))
    for name in ("this model", "random weights", "raw coordinates", "Fourier magnitudes"):
        (row,) = [line for line in lines if line.strip().startswith(name)]
        assert row.count("12.3") == 6
    (paper,) = [line for line in lines if line.strip().startswith("the paper")]
    assert "69.3" in paper
    assert "156,000 steps" in printed
    assert max(map(len, lines[:-1])) <= 80


def test_a_finished_demo_is_replaced_after_saying_so(call):
    page, _ = call()
    first = (page.parent / runs.MODEL).read_bytes()
    page, printed = call(seed=1)
    assert "Replacing the finished demo" in printed
    assert runs.load(page.parent).config.train.seed == 1
    assert (page.parent / runs.MODEL).read_bytes() != first
    assert [file.name for file in page.parent.parent.iterdir()] == ["demo"]


def test_a_stopped_demo_goes_on(call, tmp_path):
    countdown = iter([False] * 5)
    with pytest.raises(KeyboardInterrupt):
        call(stop=lambda: next(countdown, True))
    assert runs.load(tmp_path / "demo").step == 5
    page, printed = call()
    assert "Going on with the unfinished demo" in printed
    assert runs.read_report(page.parent)["steps"] > 5
    page.unlink()  # stopped behind training: nothing is trained again
    before = runs.read_report(page.parent)["steps"]
    call()
    assert runs.read_report(page.parent)["steps"] == before


def test_a_stopped_demo_of_other_settings_is_replaced(call):
    with pytest.raises(KeyboardInterrupt):
        call(stop=lambda: True)
    _, printed = call(seed=3)
    assert "Replacing the unfinished demo of other settings" in printed


@pytest.mark.parametrize("kind", ["a file", "files", "a run", "a demo and files"])
def test_what_is_not_a_demo_is_never_replaced(kind, call, tmp_path):
    out = tmp_path / "demo"
    if kind == "a file":
        out.write_text("mine")
    else:
        out.mkdir()
        (out / ("notes.txt" if "files" in kind else "config.toml")).write_text("mine")
        if kind == "a demo and files":
            (out / "report.json").write_text(json.dumps({"command": "mocaps demo"}))
    before = sorted(p.name for p in tmp_path.rglob("*"))
    with pytest.raises(InputError, match="expected a new directory or an earlier demo's"):
        call()
    assert sorted(p.name for p in tmp_path.rglob("*")) == before
