"""The page: one file that needs nothing else, with every section and every number of the report."""

import html
import json
import re
import shutil
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import torch

from mocaps import atomic, launch, report, runs, summary
from mocaps import config as configs
from mocaps.data import arrays
from mocaps.data.trajectory20 import PATTERNS
from mocaps.errors import InputError

CHROMIUM = "/usr/bin/chromium"
SMALL = {
    "model.num_snippet_capsules": "3",
    "model.num_segment_capsules": "6",
    "train.batch_size": "8",
    "train.steps": "6",
    "train.steps_per_epoch": "3",
}
SECTIONS = {
    "results",
    "data",
    "explorer",
    "reconstructions",
    "segment-templates",
    "snippet-templates",
    "confusion",
    "training",
    "again",
}


def scores(start: float) -> dict:
    """Accuracies that occur nowhere else."""
    values = iter(start + 0.0071 * i for i in range(9))

    def by_budget() -> dict:
        return {
            str(budget): {"mean": next(values), "standard_error": error, "draws": 5}
            for budget, error in ((200, 0.0123), (2000, 0.0045), (10000, None))
        }

    return {
        "logistic": by_budget(),
        "nearest_neighbour": {"cosine": by_budget(), "euclidean": by_budget()},
    }


def evaluation(own: float = 0.3, best_floor: float = 0.8) -> dict:
    return {
        "online_probe": 0.2468,
        "test": {"name": "t20 test", "sequences": 10_000},
        **scores(own),
        "floors": {
            "raw_coordinates": scores(0.1),
            "fourier_magnitudes": scores(best_floor),
            "random_weights": scores(0.2),
        },
    }


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "small"
    config = configs.with_settings(configs.preset("paper"), SMALL)
    launch.train(config, path, command="mocaps train --preset paper --out 'a < b'")
    runs.write_report(path, evaluation=evaluation())
    return path


@pytest.fixture(scope="module")
def page(run_dir) -> Path:
    return report.write_page(run_dir)


@pytest.fixture(scope="module")
def text(page) -> str:
    return page.read_text()


class Checker(HTMLParser):
    """Whether every element is closed in order, and which ids and references there are."""

    VOID = frozenset(("meta", "link", "br", "input", "img", "hr"))

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.references: list[str] = []
        self.images = 0
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.ids += [values["id"]] if "id" in values else []
        self.references += [v for k, v in attrs if k in ("href", "src", "xlink:href", "data") and v]
        if tag == "svg":
            self.images += 1
            assert values.get("role") == "img"
            assert values.get("aria-label") or values.get("aria-labelledby")
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_well_formed_and_needs_nothing_else(page, text):
    checked = Checker(text)
    assert checked.open == []
    assert len(set(checked.ids)) == len(checked.ids)
    assert set(checked.ids) >= SECTIONS
    inside = [r.removeprefix("#") for r in checked.references if r.startswith("#")]
    assert set(inside) <= set(checked.ids)
    assert [r for r in checked.references if not r.startswith("#")] == ["data:,"]
    assert not re.search(r"url\(|@import|https?://(?!www\.w3\.org/2000/svg)", text)
    assert checked.images > 20 + 20 + 6 + 3 + 1 + 6
    assert page.stat().st_size < 2_000_000


def test_the_page_holds_every_number_of_the_report(text):
    saved = evaluation()
    everything = [saved, *saved["floors"].values()]
    for representation in everything:
        for by_budget in (
            representation["logistic"],
            *representation["nearest_neighbour"].values(),
        ):
            for score in by_budget.values():
                assert f"<b>{100 * score['mean']:.1f}</b>" in text
    for number in ("24.7", "± 1.2", "69.3", "156,000", "10,000", "24.7\u202f%"):
        assert number in text
    for name in ("this model", "random weights", "raw coordinates", "Fourier magnitudes"):
        assert name in text
    assert "Fourier magnitudes are ahead of this model in every column" in text


def test_the_page_names_every_pattern_the_settings_and_the_command(text):
    for name in PATTERNS:
        assert name in text
    assert "'a < b'" not in text
    assert "mocaps train --preset paper --out 'a < b'" in html.unescape(text)
    assert "num_segment_capsules = 6" in text
    for term in ("snippet", "segment", "contrast", "smoothness", "sparsity"):
        assert f'aria-label="{term}"' in text


def test_the_explorer_holds_what_the_model_says(run_dir, text):
    (data,) = re.findall(r'<script id="samples"[^>]*>(.*?)</script>', text)
    samples = json.loads(data)["samples"]
    assert len(samples) == 40
    run = runs.load(run_dir)
    x = report.Look.at(run).x
    for sample in samples[:5]:
        assert np.allclose(np.array(sample["x"]) / 1000 * 1.03, x[sample["row"]].ravel(), atol=1e-3)
        nu = run.model.embed(x[sample["row"]][None])[0]
        best = nu.argsort(descending=True)[:5].tolist()
        assert [capsule["k"] for capsule in sample["top"]] == best
        assert sample["top"][0]["share"] == pytest.approx((nu.max() / nu.sum()).item(), abs=1e-3)
        assert sample["guess"] in PATTERNS


def test_a_page_is_the_same_twice_and_replaced_as_a_whole(
    run_dir, page, text, tmp_path, monkeypatch
):
    other = report.write_page(run_dir, tmp_path / "elsewhere.html")
    assert other.read_text() == text
    before = page.read_bytes()

    def full(*_):
        raise OSError("disk full")

    monkeypatch.setattr(atomic.os, "replace", full)
    monkeypatch.setattr(report, "render", lambda _: "half a page")
    with pytest.raises(OSError, match="disk full"):
        report.write_page(run_dir)
    assert page.read_bytes() == before
    assert not list(page.parent.glob(".*.tmp"))


def test_a_run_that_was_not_evaluated_has_a_page_without_the_table(run_dir, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(run_dir, copy)
    (copy / "report.json").unlink()
    text = report.write_page(copy).read_text()
    assert set(Checker(text).ids) & SECTIONS == SECTIONS - {"results"}
    assert "mocaps train --preset paper --data t20 --seed 0" in text
    assert "--set model.num_segment_capsules=6" in text
    assert "--steps 6" in text


@pytest.mark.parametrize(
    "settings",
    [
        {"model.num_points": "2", "model.length": "16"},
        {"model.dimension": "3", "model.length": "16"},
        {"model.num_segment_capsules": "0", "model.snippet_length": "16", "model.length": "16"},
    ],
    ids=["two points", "in space", "one layer"],
)
def test_runs_on_files_have_pages(settings, tmp_path):
    config = configs.with_settings(configs.preset("paper"), SMALL | settings)
    k, d = config.model.num_points, config.model.dimension
    shape = (100, 16, k, d) if k > 1 else (100, 16, d)
    x = 20 + 5 * torch.randn(shape, generator=torch.Generator().manual_seed(0)).cumsum(1)
    arrays.write(tmp_path / "walks.npz", x=x.numpy(), y=np.arange(100) % 3)
    config = configs.with_settings(config, {"data.name": str(tmp_path / "walks.npz")})
    launch.train(config, tmp_path / "run")
    text = report.write_page(tmp_path / "run").read_text()
    checked = Checker(text)
    assert checked.open == []
    expected = SECTIONS - {"results", "data"}
    if config.model.num_segment_capsules == 0:
        expected -= {"segment-templates"}
    assert set(checked.ids) & SECTIONS == expected
    assert "walks.npz" in text


def test_what_cannot_be_written_is_refused(run_dir, tmp_path):
    with pytest.raises(InputError, match="expected a run directory"):
        report.write_page(tmp_path)
    with pytest.raises(InputError, match=r"expected a directory to write page\.html into"):
        report.write_page(run_dir, tmp_path / "nowhere" / "page.html")


def test_pictures_as_files_of_their_own(run_dir, tmp_path):
    paths = report.write_pictures(run_dir, tmp_path / "pictures")
    assert {path.stem for path in paths} == SECTIONS - {"results", "explorer", "again"} | {
        "explained"
    }
    for path in paths:
        assert ET.parse(path).getroot().tag == "{http://www.w3.org/2000/svg}svg"
        assert path.stat().st_size < 200_000


def test_the_verdict_says_who_wins():
    ahead = summary.table(evaluation(own=0.9))
    assert summary.verdict(ahead) == "This model is ahead of every floor in all 9 columns."
    behind = summary.verdict(summary.table(evaluation()))
    assert behind == (
        "Without any learning, Fourier magnitudes are ahead of this model in every column. "
        "This model is ahead of random weights and raw coordinates throughout."
    )
    mixed = evaluation(best_floor=0.2)
    mixed["floors"]["random_weights"]["logistic"]["200"]["mean"] = 0.99
    assert "random weights are ahead of this model in 1 of 9 columns" in summary.verdict(
        summary.table(mixed)
    )
    assert summary.verdict(summary.table({})) == ""


def test_the_best_of_each_column_is_marked():
    table = summary.table(evaluation())
    assert [row.kind for row in table.rows] == ["model", "floor", "floor", "floor", "paper"]
    for i in range(len(table.columns)):
        marked = [row.name for row in table.rows if (cell := row.cells[i]) and cell.best]
        assert marked == ["Fourier magnitudes"]


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not Path(CHROMIUM).exists():
        pytest.skip(f"no browser at {CHROMIUM} (on Debian: apt-get install chromium)")
    with sync_api.sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield browser
        browser.close()


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_in_a_browser(browser, page, width, scheme):
    view = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    said: list[str] = []
    view.on("console", lambda message: said.append(message.text))
    view.on("pageerror", lambda error: said.append(str(error)))
    view.on("request", lambda request: said.append(request.url) if request.url[:4] == "http" else 0)
    view.goto(page.as_uri())
    assert view.evaluate("document.documentElement.scrollWidth") <= width
    sizes = view.evaluate(
        "[...document.querySelectorAll('svg')].filter(s => getComputedStyle(s.parentNode).display"
        " != 'none').map(s => [s.getBoundingClientRect().width, s.querySelectorAll('path').length])"
    )
    assert len(sizes) > 50
    assert all(w > 30 and paths > 0 for w, paths in sizes)
    first = view.inner_html("#big")
    view.focus("#after")
    view.keyboard.press("Enter")
    assert view.inner_html("#big") != first
    assert view.locator("#cards svg").count() == 5
    view.select_option("#sample", "39")
    assert "cubic 3" in view.inner_text("#told")
    assert said == []
    view.close()
