"""The tables, the full turn and the explanations say what the model says."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import small
import torch
from torch import nn

from mocaps import cli, explained, figures, geometry, launch, learned, look, readout, runs, standins
from mocaps.capsules import MCAEOutput, SegmentCapsules, SnippetCapsules
from mocaps.config import ModelConfig
from mocaps.data.trajectory20 import PATTERNS, Trajectory20
from mocaps.errors import InputError
from mocaps.model import MCAE, MultiPointMCAE, build

dimensions = pytest.mark.parametrize("d", [2, 3])


def walks(n, d=2, length=32, seed=0, points=()):
    x = np.random.default_rng(seed).normal(size=(n, length, *points, d)).cumsum(1)
    return torch.from_numpy(0.1 * x).float()


class Readable(MCAE):
    """Capsules whose B is known: number k turns by `follow[k]` times the angle of the motion's
    first point, and lies at its centroid plus k; number 0 has the highest nu, then 1, ..."""

    def __init__(self, d=2, follow=(1.0, 0.0, -1.0), start=0.0):
        super().__init__(ModelConfig(dimension=d, num_snippet_capsules=2, num_segment_capsules=3))
        self.follow, self.start = torch.tensor(follow).double(), start

    def forward(self, x, **_):
        centre = x.double().mean(1)
        first = x.double()[:, 0] - centre
        angle = torch.atan2(first[:, 1], first[:, 0])[:, None] * self.follow + self.start
        still = torch.zeros_like(angle)
        theta = [angle] if x.shape[-1] == 2 else [still, still, angle]
        R = geometry.matrix(geometry.rotation(theta))
        place = centre[:, None] + torch.arange(3)[:, None]
        B = torch.cat([0.5 * R, place[..., None]], -1).to(x)
        nu = torch.tensor([0.9, 0.6, 0.3]).expand(len(x), 3)
        A = torch.eye(x.shape[-1], x.shape[-1] + 1).expand(len(x), 4, 2, -1, -1)
        snippets = SnippetCapsules(A, torch.ones(len(x), 4, 2))
        return MCAEOutput(snippets, x, SegmentCapsules(B, nu, nu[..., None]))


@dimensions
def test_rotation_tables_hold_the_angles_of_B(d):
    model, x = Readable(d), walks(1, d)[0] + 5
    table = learned.rotation_table(model, x, top=2)
    assert [column["theta"] for column in table["columns"]] == [-10, -5, 0, 5, 10]
    assert table["repeating"] == [0, 1]
    at_rest = table["columns"][2]["capsules"]
    for column in table["columns"]:
        assert [c["k"] for c in column["capsules"]] == [0, 1]
        first, second = column["capsules"]
        turn = first["phi"] - at_rest[0]["phi"]
        assert turn == pytest.approx(column["theta"], abs=1e-3)
        assert second["phi"] == pytest.approx(0, abs=1e-3)
        assert (first["nu"], second["nu"]) == pytest.approx((0.9, 0.6))


@dimensions
def test_translation_tables_hold_the_translations_of_a_centred_motion(d):
    table = learned.translation_table(Readable(d), walks(1, d)[0] + 5, top=3)
    for column in table["columns"]:
        shift = [*column["shift"], *[0.0] * (d - 2)]
        for c in column["capsules"]:
            assert c["translation"] == pytest.approx([s + c["k"] for s in shift], abs=1e-5)
    assert table["columns"][0]["shift"] == [-0.2, 0]
    assert table["columns"][-1]["shift"] == [0, 0.2]


def test_tables_are_sorted_by_number_and_tell_which_capsules_stay():
    class Swapping(Readable):
        def forward(self, x, **kwargs):
            out = super().forward(x, **kwargs)
            nu = out.segments.nu.clone()
            nu[-1] = torch.tensor([0.1, 0.6, 0.3])
            object.__setattr__(out.segments, "nu", nu)
            return out

    table = learned.rotation_table(Swapping(), walks(1)[0], top=2)
    assert [[c["k"] for c in column["capsules"]] for column in table["columns"]] == [
        *[[0, 1]] * 4,
        [1, 2],
    ]
    assert table["repeating"] == [1]
    text = readout.Grid.of_rotations(table, "a walk").markdown()
    assert "| **1** | 0.0 |" in text
    assert "| 0 |" in text
    assert text.startswith("**a walk: ")
    assert "theta = -10°" in text


@dimensions
def test_a_full_turn_follows_capsules_by_their_weight_and_unwraps(d):
    x = walks(40, d)
    all_follow = learned.full_turn(Readable(d, (1.0, 1.0, 1.0), start=3.0), x)
    assert all_follow["phi"] == pytest.approx(all_follow["theta"], abs=1e-2)
    assert all_follow["agreement"] == pytest.approx([1.0] * 73, abs=1e-5)
    assert all_follow["cosine"] == pytest.approx([1.0] * 73)
    assert all_follow["sequences"] == 40
    backwards = learned.full_turn(Readable(d, (-2.0, -2.0, -2.0)), x)
    assert backwards["phi"][-1] == pytest.approx(-720, abs=1e-2)
    # nu is 0.9, 0.6, 0.3: half of the weight follows, a third stays, a sixth turns back.
    mixed = learned.full_turn(Readable(d), x, [0.0, 90.0])
    expected = 3 * 1j + 2 - 1j
    assert mixed["phi"][1] == pytest.approx(math.degrees(np.angle(expected)), abs=1e-3)
    assert mixed["agreement"][1] == pytest.approx(abs(expected) / 6, abs=1e-6)


def test_others_is_the_cosine_between_different_motions():
    units = nn.functional.normalize(torch.randn(6, 4, dtype=torch.float64), dim=1)
    cosines = (units @ units.T)[~torch.eye(6, dtype=torch.bool)]
    assert learned._between(units) == pytest.approx(cosines.mean().item())
    assert learned._between(units[:1]) is None


@pytest.mark.parametrize("frame", ["none", "snippets"])
def test_bodies_of_several_points_are_turned_as_a_whole(frame):
    torch.manual_seed(0)
    config = ModelConfig(
        dimension=3, num_points=3, num_segment_capsules=4, num_snippet_capsules=3, frame=frame
    )
    model, x = MultiPointMCAE(config).eval(), walks(5, 3, points=(3,))
    curve = learned.full_turn(model, x, [0.0, 40.0, 300.0])
    if frame == "snippets":
        assert curve["phi"] == pytest.approx([0, 40, -60], abs=1e-3)
        assert curve["cosine"] == pytest.approx([1, 1, 1], abs=1e-6)
    phis = [
        learned.rotation_table(model, x[0], [0.0], point=p)["columns"][0]["capsules"][0]["phi"]
        for p in range(3)
    ]
    assert len(set(phis)) == 3
    with pytest.raises(InputError, match="--point: expected 0 to 2, got 3"):
        learned.rotation_table(model, x[0], point=3)


def test_a_baseline_has_no_capsules_to_look_at():
    with pytest.raises(InputError, match="expected a capsule model, got a Linear"):
        learned.full_turn(nn.Linear(2, 2), walks(2))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    torch.set_num_threads(1)
    path = tmp_path_factory.mktemp("runs") / "run"
    patched = pytest.MonkeyPatch()
    patched.setattr(launch.data, "of", small.stream)
    launch.train(small.config(train__steps=4), path, command="mocaps train")
    patched.undo()
    return path


@pytest.fixture
def few(monkeypatch):
    """A small test set, so that a command takes no time."""
    x, y = Trajectory20(seed=5)[:60]
    monkeypatch.setattr(look, "trajectory20", lambda *_: (x, y))
    return x, y.numpy()


def as_run(model, config, probe=None):
    return runs.Run(Path("a run"), config, model, probe, 0, "last", True, {})


@dimensions
@pytest.mark.parametrize("frame", ["none", "snippets"])
@pytest.mark.parametrize("points", [1, 2])
def test_an_explanation_gives_the_reconstruction_back(d, frame, points):
    """Templates where they are placed, mixed by their shares, are the reconstruction (Eq. 2)."""
    torch.manual_seed(0)
    model_config = ModelConfig(
        dimension=d, num_points=points, num_snippet_capsules=3, num_segment_capsules=4, frame=frame
    )
    config = replace(small.config(), model=model_config)
    x = 7 + 30 * walks(4, d, points=(points,) if points > 1 else ())
    model = build(model_config).eval()
    found = explained.explain(as_run(model, config), x, None, sample=2, point=points - 1)
    assert found.name == "sequence 2" + (", point 1" if points > 1 else "")
    own = x[2] if points == 1 else x[2, :, 1]
    np.testing.assert_array_equal(found.x, own)
    plain = json.loads(json.dumps(found.plain(top=2), allow_nan=False))
    for capsules in (plain["capsules"], *(s["capsules"] for s in plain["snippets"])):
        assert sum(c["share"] for c in capsules) == pytest.approx(1)
        assert ["points" in c for c in capsules[:3]] == [True, True, False]
    assert len(plain["capsules"]) == 4
    assert [s["steps"] for s in plain["snippets"]] == [[0, 7], [8, 15], [16, 23], [24, 31]]
    mixed = np.concatenate([sum(u.share * u.points for u in each) for each in found.snippets])
    np.testing.assert_allclose(mixed, found.reconstructions["snippets"], atol=1e-3)
    with torch.no_grad():
        hats = model(x).reconstruction_from_segments.view(4, points, 32, d)
    np.testing.assert_allclose(found.reconstructions["segments"], hats[2, -1], atol=1e-3)
    off = np.sqrt(((own.numpy() - found.reconstructions["snippets"]) ** 2).sum(-1).mean())
    assert plain["errors"]["snippets"] == pytest.approx(off)
    assert len(found.figure().axes) == 6 + 4 + 1


def test_placed_templates_know_their_place_size_and_scale(few):
    x, y = few
    torch.manual_seed(0)
    model = MCAE(small.config().model).eval()
    found = explained.explain(as_run(model, small.config()), x, y, sample=5)
    assert found.name == f"{PATTERNS[y[5]]}, sequence 5"
    shares = [use.share for use in found.capsules]
    assert shares == sorted(shares, reverse=True)
    B = model(x[5:6]).segments.B[0]
    for use in found.capsules:
        template = model.segment_templates()[use.k].numpy()
        assert use.scale == pytest.approx(geometry.scale(B[use.k]).item())
        size = np.sqrt(((template - template.mean(0)) ** 2).sum(-1).mean())
        assert use.size == pytest.approx(use.scale * size, rel=1e-4)
        placed = geometry.apply(B[use.k], torch.from_numpy(template)).mean(0)
        assert use.place == pytest.approx(placed.detach().numpy(), abs=1e-5)


def test_a_model_of_one_layer_explains_by_its_snippet_templates():
    torch.manual_seed(0)
    config = ModelConfig(snippet_length=32, num_snippet_capsules=6, num_segment_capsules=0)
    run = as_run(MCAE(config).eval(), replace(small.config(), model=config))
    found = explained.explain(run, walks(2), None, sample=1)
    assert len(found.capsules) == len(found.snippets[0]) == 6
    assert "segments" not in found.errors
    assert len(found.figure().axes) == 6 + 1 + 1


def test_an_explanation_draws_what_lies_inside_the_frame():
    x = walks(1)[0].numpy()
    placed = np.stack([x, x + 100])
    pieces = x.reshape(4, 1, 8, 2)
    figure = figures.explanation(x, x, placed, ["a", "b"], pieces, [[(3, 1.0)]] * 4, x, "walk")
    panels = [ax for ax in figure.axes if (ax.get_gid() or "").startswith("panel")]
    titles = [ax.get_title(loc="left") for ax in panels]
    assert titles[:4] == ["walk", "given back, 0% off", "a", "b"]
    assert titles[4:] == [f"steps {i} to {i + 7}" for i in (0, 8, 16, 24)]
    inside, outside = (len(ax.collections[0].get_segments()) for ax in panels[2:4])
    assert inside > 20
    assert outside == 2  # the frame and the motion in grey
    assert panels[4].texts[0].get_text() == "3 100%"


def test_sequences_are_chosen_by_pattern_or_number(few):
    x, y = few
    config = small.config()
    found = standins.chosen(config, x, y)
    assert list(found) == ["hexagon", "absolute sine"]
    assert all(y[i] == PATTERNS.index(name) for name, i in found.items())
    assert standins.chosen(config, x, y, samples=[7]) == {f"{PATTERNS[y[7]]}, sequence 7": 7}
    assert standins.chosen(config, x, None) == {"sequence 0": 0}
    for given, message in (
        ({"patterns": ["hexagn"]}, "--pattern: expected one of triangle, .*, got 'hexagn'"),
        ({"samples": [60]}, "--sample: expected 0 to 59, got 60"),
    ):
        with pytest.raises(InputError, match=message):
            standins.chosen(config, x, y, **given)
    rows, labels, what = standins.sequences(config, None, 10)
    assert (len(rows), len(labels), what) == (10, 10, "t20 test")
    with pytest.raises(InputError, match="--rows: expected 1 or more, got 0"):
        standins.sequences(config, None, 0)


@pytest.mark.usefixtures("few")
def test_commands_look_at_a_run(run, tmp_path, capsys):
    assert cli.main(["invariance", str(run), "--rows", "20"]) == 0
    assert "the promise does not hold" in capsys.readouterr().out
    report = runs.read_report(run)["invariance"]
    assert report["data"] == "t20 test"
    assert not report["verdict"]["passed"]
    assert (run / "invariance.svg").exists()
    assert cli.main(["invariance", str(run), "--rows", "20", "--no-double", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert "float64" not in result
    assert result["sequences"] == 20
    out = tmp_path / "learned"
    assert cli.main(["learned", str(run), "--pattern", "heart", "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert "heart: the angle phi of B" in text
    names = {"tables.md", "learned.json", "turn.svg"}
    assert {path.name for path in out.iterdir()} == names | {
        "snippet-templates.svg", "segment-templates.svg",
    }  # fmt: skip
    picture = str(tmp_path / "explained.svg")
    assert cli.main(["explain", str(run), "--sample", "3", "--out", picture]) == 0
    assert "taken for" in capsys.readouterr().out
    assert cli.main(["explain", str(run), "--sample", "3", "--json"]) == 0
    shares = [c["share"] for c in json.loads(capsys.readouterr().out)["capsules"]]
    assert sum(shares) == pytest.approx(1)
    picture = str(tmp_path / "turn.svg")
    assert cli.main(["turn", str(run), "--random", "paper", "--rows", "9", "--out", picture]) == 0
    assert "random weights, paper" in capsys.readouterr().out
    assert "random weights, paper" in (tmp_path / "turn.svg").read_text()


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["invariance"], "expected a run directory, --released or --random, got none"),
        (["invariance", "--random", "papr"], "expected a preset among .*, got 'papr'"),
        (["invariance", "RUN", "--random", "paper"], "expected one of .*, got 2 of them"),
        (["turn", "RUN", "--out", "x.png"], "expected an .svg file in a directory that exists"),
        (["learned", "RUN", "--sample", "99"], "--sample: expected 0 to 59, got 99"),
        (["explain", "RUN", "--sample", "-1"], "--sample: expected 0 to 59, got -1"),
        (["explain", "RUN", "--point", "1"], "--point: expected 0 to 0, got 1"),
        (["turn", "--released", "none.npz"], "expected the authors' weights at none.npz"),
    ],
)
def test_what_cannot_be_looked_at_is_one_sentence(run, given, message, capsys):
    given = [str(run) if word == "RUN" else word for word in given]
    assert cli.main(given) == cli.REFUSED
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert re.search(message, error)
