"""Configurations go to TOML and back, and what is wrong in one is said in a sentence."""

import dataclasses
import subprocess
import sys
import tomllib

import pytest

from mocaps import config as c
from mocaps.errors import InputError


@pytest.mark.parametrize("name", c.PRESETS)
def test_toml_round_trip(name, tmp_path):
    config = c.with_settings(c.preset(name), {"train.seed": "7", "disturb.functions": "['smooth']"})
    path = tmp_path / "config.toml"
    path.write_text(c.to_toml(config))
    assert c.load(path) == config
    assert config.disturb.functions == ("smooth",)


def test_toml_is_complete():
    table = tomllib.loads(c.to_toml(c.preset("paper")))
    for section in dataclasses.fields(c.Config):
        if section.name != "preset":
            value = getattr(c.preset("paper"), section.name)
            assert set(table[section.name]) == {f.name for f in dataclasses.fields(value)}


def test_what_a_file_leaves_out_comes_from_its_preset():
    config = c.from_dict({"preset": "authors", "model": {"num_segment_capsules": 5}})
    assert config.model.num_segment_capsules == 5
    assert config.loss == c.preset("authors").loss


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"model.num_segmnt_capsules": "3"},
            "unknown key .* did you mean 'model.num_segment_capsules'",
        ),
        ({"length": "64"}, "expected a setting section.key .* did you mean 'model.length'"),
        (
            {"model.length": "31"},
            "model.snippet_length: expected at least 2 and a divisor of length = 31",
        ),
        ({"model.length": "long"}, "model.length: expected a whole number, got 'long'"),
        ({"model.planes": "1"}, "model.planes: expected true or false, got 1"),
        ({"loss.temperature": "nan"}, "loss.temperature: expected a finite number, got nan"),
        ({"loss.temperature": "0"}, "loss.temperature: expected positive, got 0.0"),
        (
            {"loss.smoothness_at": "ends"},
            "expected one of 'every step', 'snippet borders', got 'ends'",
        ),
        ({"disturb.functions": "[1]"}, "disturb.functions: expected a string, got 1"),
        ({"disturb.functions": "['turn']"}, "expected names among rotate, .* got 'turn'"),
        ({"train.batch_size": "1"}, "train.batch_size: expected at least 2"),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(InputError, match=message):
        c.with_settings(c.preset("paper"), settings)


def test_several_settings_are_judged_together():
    settings = {"model.length": "14", "model.snippet_length": "7"}
    assert c.with_settings(c.preset("paper"), settings).model.num_snippets == 2


def test_wrong_files(tmp_path):
    with pytest.raises(InputError, match="found no such file"):
        c.load(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("preset = [")
    with pytest.raises(InputError, match="expected TOML in"):
        c.load(tmp_path / "bad.toml")
    with pytest.raises(InputError, match="did you mean 'paper'"):
        c.from_dict({"preset": "papr"})
    with pytest.raises(InputError, match="expected model to be a table of settings, got 3"):
        c.from_dict({"model": 3})


def test_configuration_needs_no_torch():
    """So that `mocaps --help` is quick."""
    code = "import sys, mocaps.config; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
