"""Figures hold the panels, labels and data they are given; the SVG follows the page's theme."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from mocaps import charts, drawing, figures, svg
from mocaps.errors import InputError

rng = np.random.default_rng(0)
NAMES = ("circle", "line", "heart")


def walks(*shape: int) -> np.ndarray:
    return 0.1 * rng.normal(size=shape).cumsum(axis=-2).clip(-9, 9)


def panels(figure: Figure) -> list:
    return [ax for ax in figure.axes if str(ax.get_gid()).startswith("panel")]


def titles(figure: Figure) -> list[str]:
    return [ax.get_title(loc="left") for ax in panels(figure)]


def drawn(ax) -> list[np.ndarray]:
    (collection,) = [c for c in ax.collections if isinstance(c, LineCollection)]
    return [np.asarray(s) for s in collection.get_segments()]


EXAMPLES = {
    "gallery": lambda: figures.gallery(walks(30, 32, 2), np.arange(30) % 3, NAMES),
    "reconstructions": lambda: figures.reconstructions(*walks(3, 4, 32, 2)),
    "one reconstruction": lambda: figures.reconstructions(*walks(2, 4, 32, 2)),
    "explanations": lambda: figures.explanations(
        *walks(2, 2, 32, 2), walks(2, 3, 32, 2), [["a", "b", "c"], ["d", "e", "f"]], ["x", "y"]
    ),
    "mosaic": lambda: figures.mosaic(*walks(2, 6, 32, 2)),
    "snippet templates": lambda: figures.snippet_templates(walks(8, 8, 2), rng.random(8)),
    "segment templates": lambda: figures.segment_templates(walks(80, 32, 2), rng.random(80)),
    "loss curves": lambda: figures.loss_curves(
        range(1, 10), {"snippet": np.ones(9), "contrast": 0.5 ** np.arange(9)}, rng.random(9)
    ),
    "confusion": lambda: figures.confusion(*rng.integers(0, 3, (2, 99)), NAMES),
    "full turn": lambda: charts.full_turn(
        np.arange(361), rng.random((2, 361)), ["ours", "theirs"], rng.random((2, 361))
    ),
    "space": lambda: figures.segment_templates(walks(9, 16, 3), rng.random(9)),
}
COUNTS = dict(zip(EXAMPLES, (3, 4, 4, 10, 6, 8, 40, 3, 1, 2, 9), strict=True))


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_figure_has_its_panels_and_survives_both_formats(name, tmp_path):
    figure = EXAMPLES[name]()
    assert len(panels(figure)) == COUNTS[name]
    figure.savefig(tmp_path / "figure.png", dpi=50)
    assert (tmp_path / "figure.png").stat().st_size > 1000
    text = svg.whole(figure, name, standalone=True)
    assert ET.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"
    assert len(svg.tiles(figure)) == COUNTS[name]


def test_a_trajectory_is_drawn_whole_dark_to_bright_with_a_dot_where_it_starts():
    x = walks(32, 2)
    *pieces, (dot, dot_colour, dot_width) = drawing.time_lines(x)
    points, colours, widths = zip(*pieces, strict=True)
    joined = np.concatenate([points[0], *(p[1:] for p in points[1:])])
    np.testing.assert_array_equal(joined, x)
    assert list(colours) == drawing.TIME
    assert dot_colour == drawing.TIME[0]
    assert dot_width > max(widths)
    np.testing.assert_allclose(dot, x[[0, 0]], atol=1e-3)


def test_time_survives_grey_printing():
    for colours in (drawing.TIME, drawing.TIME_ON_DARK):
        rgb = np.array([[int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in colours])
        grey = rgb @ [0.2126, 0.7152, 0.0722]
        assert (np.diff(grey) > 0).all()


@pytest.mark.parametrize("length", [1, 2, 3, 8, 256])
def test_trajectories_of_any_length_are_drawn(length):
    lines = drawing.time_lines(walks(length, 2))
    assert 1 <= len(lines) <= drawing.TIME_STEPS + 1


def test_gallery_shows_the_first_samples_of_each_pattern_under_its_name():
    x, y = walks(30, 32, 2), rng.permutation(30) % 3
    figure = figures.gallery(x, y, NAMES, each=4)
    assert titles(figure) == list(NAMES)
    frames = [line for line in drawn(panels(figure)[1]) if len(line) == 5 and is_box(line)]
    assert len(frames) == 4
    first = x[np.flatnonzero(y == 1)[0]]
    low = drawing.limits(x)[0]
    np.testing.assert_allclose(drawn(panels(figure)[1])[1][0] + low, first[0], atol=1e-6)


def is_box(line: np.ndarray) -> bool:
    return bool(np.allclose(line[0], line[-1]) and np.ptp(line[:2, 1]) < 1e-9)


def test_reconstructions_say_how_far_off_they_are():
    x = walks(2, 32, 2)
    figure = figures.reconstructions(x, x + np.array([0.3, 0.4]), x, names=["a", "b"])
    assert titles(figure) == ["a", "b"]
    texts = [text.get_text() for text in panels(figure)[0].texts]
    assert texts == ["input", "snippets 0.500", "segments 0.000"]


def test_explanations_draw_templates_up_to_the_frame_and_name_them():
    x = walks(1, 32, 2)
    far = x[:, None] + np.array([0.0, 100.0])
    placed = np.concatenate([x[:, None], far], axis=1)
    figure = figures.explanations(x, x, placed, [["here", "far"]], ["a walk"])
    assert titles(figure) == ["a walk", "given back", "here", "far"]
    *_, here, away = (drawn(ax) for ax in panels(figure))
    assert len(here) > 30
    assert len(away) == 2  # the frame and the shade
    box = here[0]
    for piece in here[2:]:
        assert (piece >= box.min(axis=0) - 1e-9).all()
        assert (piece <= box.max(axis=0) + 1e-9).all()


def test_lines_are_cut_off_at_the_borders():
    line = np.array([[-2.0, 0.5], [2.0, 0.5]])
    low, high = np.zeros(2), np.ones(2)
    ((points, colour, width),) = drawing.clipped([(line, "c", 3.0)], low, high)
    np.testing.assert_allclose(points, [[0, 0.5], [1, 0.5]])
    assert (colour, width) == ("c", 3.0)
    assert drawing.clipped([(line + np.array([0, 1]), "c", 3.0)], low, high) == []


def test_segment_templates_are_sorted_by_mean_activation():
    figure = figures.segment_templates(walks(5, 32, 2), np.array([0.1, 0.5, 0.2, 0.9, 0.0]), 3)
    assert titles(figure) == ["3 · 0.90", "1 · 0.50", "2 · 0.20"]


def test_templates_fill_their_panels_whatever_their_size():
    small = figures.snippet_templates(1e-3 * walks(1, 8, 2))
    points = np.concatenate(drawn(panels(small)[0])[:-1])
    assert 1.6 < np.ptp(points, axis=0).max() < 2


def test_loss_curves_carry_their_values():
    accuracy = np.linspace(0.05, 0.6, 9)
    terms = {"contrast": np.linspace(4, 2, 9), "snippet": 10.0 ** -np.arange(9)}
    figure = figures.loss_curves(range(1, 10), terms, accuracy)
    assert titles(figure) == ["contrast", "snippet", "validation accuracy, %"]
    contrast, snippet, validation = panels(figure)
    np.testing.assert_array_equal(contrast.lines[0].get_ydata(), terms["contrast"])
    np.testing.assert_allclose(validation.lines[0].get_ydata(), 100 * accuracy)
    assert snippet.get_yscale() == "log"
    assert contrast.get_yscale() == "linear"


def test_confusion_counts_in_percent_of_the_true_pattern():
    true = np.array([0] * 4 + [1] * 10 + [2])
    predicted = np.array([0, 0, 0, 2] + [1] * 10 + [0])
    (ax,) = panels(figures.confusion(true, predicted, NAMES))
    cells = {tuple(text.get_position()): text.get_text() for text in ax.texts}
    assert cells == {(0, 0): "75", (2, 0): "25", (1, 1): "100", (0, 2): "100"}
    assert [label.get_text() for label in ax.get_yticklabels()] == list(NAMES)
    (patches,) = [c for c in ax.collections if isinstance(c, PolyCollection)]
    opacity = patches.get_facecolor()[:, 3]
    assert opacity[0] < opacity[2] == 1


def test_full_turn_draws_each_curve_in_a_colour_and_dash_of_its_own():
    angles = np.arange(0, 361, 5)
    cosines = rng.random((3, len(angles)))
    figure = charts.full_turn(angles, cosines, ["a", "b", "c"])
    lines = panels(figure)[0].lines
    for line, curve in zip(lines, cosines, strict=True):
        np.testing.assert_array_equal(line.get_ydata(), curve)
    assert len({to_hex(line.get_color()) for line in lines}) == 3
    assert len({line.get_linestyle() for line in lines}) == 3
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b", "c"]


def test_wrong_shapes_are_refused():
    with pytest.raises(InputError, match=r"expected x_hat of shape \(2, 32, 2\), got \(3, 32, 2\)"):
        figures.reconstructions(walks(2, 32, 2), walks(3, 32, 2))
    with pytest.raises(InputError, match="expected points of 2 or 3 coordinates, got 4"):
        figures.snippet_templates(walks(2, 8, 4))
    with pytest.raises(InputError, match="expected at least one panel"):
        figures.segment_templates(walks(2, 8, 2), [1, 2], count=0)
    with pytest.raises(InputError, match="expected as many labels as samples, got 2 and 3"):
        figures.gallery(walks(3, 8, 2), [0, 1], NAMES)
    with pytest.raises(InputError, match="expected one prediction a label"):
        figures.confusion([1, 2], [1], NAMES)


def test_svg_takes_its_colours_from_the_theme_and_stays_small():
    figure = EXAMPLES["segment templates"]()
    text = svg.whole(figure, "a <label> & more")
    assert "<label>" not in text
    assert "http" not in text
    assert not re.search(r'(fill|stroke)="#', text)
    for colour in range(drawing.TIME_STEPS):
        assert f'class="s-t{colour}"' in text
    assert len(text) < 40 * 1800
    assert all(f"--t{i}:" in svg.theme(dark) for i in range(16) for dark in (False, True))


def test_tiles_are_all_of_one_size_and_know_their_titles():
    figure = EXAMPLES["loss curves"]()
    tiles = svg.tiles(figure)
    sizes = {tuple(re.findall(r'viewBox="\S+ \S+ (\S+) (\S+)"', tile.svg)[0]) for tile in tiles}
    assert len(sizes) == 1
    assert [tile.title for tile in tiles] == ["snippet", "contrast", "validation accuracy, %"]
    assert "contrast" in tiles[1].svg
    assert "snippet" not in tiles[1].svg


def test_the_same_figure_is_the_same_text():
    x, y = walks(6, 32, 2), np.arange(6) % 3
    assert len({svg.whole(figures.gallery(x, y, NAMES), "g") for _ in range(2)}) == 1
