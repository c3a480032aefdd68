"""The benchmarks measure, compare and render; how fast anything is, is not for a test to say."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import __main__ as command  # noqa: E402
from benchmarks import children, picture, points, rows, scaling, table  # noqa: E402
from benchmarks.measuring import Laps, Memory  # noqa: E402

MACHINE = {"cpu": "c", "torch": "t", "date": "d", "commit": "abc", "changed": False}


def result(**ratios):
    """A run in which everything took a millisecond."""
    found = {name: {"seconds": 1e-3, "wall": 1.2e-3, "ratio": r} for name, r in ratios.items()}
    return {"machine": MACHINE, "product": 3e-4, "seconds": 1.0, "quick": False, "rows": found}


def shown(now, recorded):
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(table.comparison(now, recorded))
    return console.export_text()


def test_laps_count_units_and_forget_the_first_lap():
    calls = []
    laps = Laps(count=3, units=4).run(lambda: calls.append(sum(range(20_000))))
    assert len(calls) == 16
    found = laps.result()
    assert len(laps.cpu) == 4
    assert found["seconds"] > 0
    assert found["quartiles"][0] <= found["ratio"] <= found["quartiles"][1]
    assert found["ratio"] == pytest.approx(found["seconds"] / found["product"], rel=0.5)


def test_the_peak_of_memory_is_seen_and_what_was_there_before_is_not():
    old = bytearray(20_000_000)
    memory = Memory()
    held = bytearray(b"1" * 30_000_000)
    memory.sample()
    del held
    assert len(old) == 20_000_000
    assert 29e6 < memory.peak() < 90e6
    assert 29e6 < memory.own() < 90e6


def test_a_regression_of_more_than_a_fifth_is_shown():
    recorded = result(step=10.0, nu=10.0, nw_ucla_memory=10.0)
    now = result(step=12.5, nu=11.9, nw_ucla_memory=13.0)
    assert table.regressions(now, recorded) == ["step", "nw_ucla_memory"]
    text = shown(now, recorded)
    assert "slower +25%" in text
    assert "larger +30%" in text
    assert " +19%" in text
    assert table.regressions(now, {}) == []
    assert "none" in shown(now, {})


def test_strict_turns_a_regression_into_an_exit_code(tmp_path, monkeypatch):
    for name in ("LATEST", "RECORDED", "DOCUMENT"):
        monkeypatch.setattr(table, name, tmp_path / name)
    monkeypatch.setattr(command, "measured", lambda quick, only: result(step=ratio))  # noqa: ARG005
    monkeypatch.setattr(command.table, "render", lambda: "rendered")
    ratio = 10.0
    assert command.main(["--record"]) == 0
    assert json.loads((tmp_path / "RECORDED").read_text())["rows"]["step"]["ratio"] == 10.0
    assert (tmp_path / "DOCUMENT").read_text() == "rendered"
    ratio = 12.5
    assert command.main([]) == 0
    assert json.loads((tmp_path / "LATEST").read_text())["rows"]["step"]["ratio"] == 12.5
    assert command.main(["--strict"]) == 1
    assert command.main(["--strict", "--record"]) == 1
    assert json.loads((tmp_path / "RECORDED").read_text())["rows"]["step"]["ratio"] == 10.0


def test_full_training_is_its_steps_and_validations():
    found = {name: {"seconds": 1.0, "wall": 1.0, "ratio": 2.0} for name in ("step", "validation")}
    assert rows.derived(found)["full"] == {"seconds": 157_000, "wall": 157_000, "ratio": 314_000}
    assert set(rows.ROWS) == set(rows.MEASURED) | {"full", "nw_ucla_memory"}


def test_the_document_shows_what_is_recorded():
    assert table.DOCUMENT.read_text() == table.render()


@pytest.mark.parametrize("name", ["steps", "nw_ucla"])
def test_a_step_is_measured_in_a_process_of_its_own(name):
    of = {"preset": "paper"} if name == "steps" else {}
    found = children.call("rows", name, **({"quick": True} | of))
    assert found["ratio"] > 0
    assert found["laps"] == 2
    assert name == "steps" or found["bytes"] > 1e6


def test_wrong_options_are_a_sentence():
    def refused(*arguments):
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks", *arguments],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        assert done.returncode != 0
        return done.stderr

    assert "expected rows among step," in refused("--only", "stepp")
    assert "expected --record without --quick" in refused("--record", "--quick")


def test_exponents_are_fitted_and_judged():
    axis = scaling.AXES["L"]
    grown = [{"size": s, "seconds": s**1.5, "bytes": 1e6 * (5 + s)} for s in axis.sizes]
    found = scaling.judged(axis, grown)
    assert found["time"]["all"] == pytest.approx(1.5)
    assert found["time"]["faster"]
    assert found["memory"]["all"] < found["memory"]["end"] < 1
    assert not found["memory"]["faster"]


def test_less_is_embedded_where_the_disk_is_small():
    each = points.bytes_on_disk(1)
    assert each == 4 * (64 + 160)
    sizes = scaling.AXES["sequences"].sizes
    assert scaling.fitting(sizes, 10**12) == (list(sizes), "")
    room, note = scaling.fitting(sizes, scaling.MARGIN + 4_000_000 * each)
    assert room == [10_000, 100_000, 1_000_000, 3_000_000]
    assert "3,000,000" in note


def test_embedding_is_measured_and_its_files_go(tmp_path):
    found = points.embed(12_345, str(tmp_path))
    assert found["seconds"] > 0
    assert found["bytes"] < 60e6
    assert list(tmp_path.iterdir()) == []


def test_growth_is_drawn_and_written():
    axes = {}
    for name, axis in scaling.AXES.items():
        measured = [{"size": s, "seconds": s / 1e4, "bytes": 2e6 + s} for s in axis.sizes]
        axes[name] = {"points": measured, "notes": "", **scaling.judged(axis, measured)}
    svg = picture.picture(axes)
    assert svg.startswith("<svg")
    text = scaling.markdown({"machine": MACHINE, "axes": axes})
    for axis in scaling.AXES.values():
        assert axis.label in text
        assert f"{axis.label}: " in svg
