import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import small

from mocaps import cli, launch, progress, runs
from mocaps.data.trajectory20 import Trajectory20
from mocaps.progress import Meter, Status

SMALL = [f"{key}={value}" for key, value in small.SETTINGS.items()]
SMALL += ["train.schedule=constant"]  # so that a budget may grow
SMALL += ["model.lstm_hidden=32", "model.head_hidden=32", "model.lstm_reads_templates=true"]


@pytest.fixture
def small_data(monkeypatch):
    monkeypatch.setattr(launch.data, "of", small.stream)


@pytest.fixture
def tracks(tmp_path):
    x, y = Trajectory20(seed=1)[:60]
    np.savez(tmp_path / "x.npz", x=x.numpy(), y=y.numpy())
    return tmp_path / "x.npz"


@pytest.fixture
def run(tmp_path, small_data):  # noqa: ARG001
    assert mocaps("train", "--steps", 3, "--set", *SMALL, "--out", tmp_path / "run") == 0
    return tmp_path / "run"


def mocaps(*arguments):
    return cli.main([str(a) for a in arguments])


def process(*arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "mocaps", *map(str, arguments)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def refusal(capsys):
    """The one sentence on standard error."""
    out = capsys.readouterr()
    assert out.err.startswith("mocaps: ")
    assert out.err.count("\n") == 1
    return out.err


def test_train_evaluate_embed_from_end_to_end(tmp_path, run, tracks, capsys):
    capsys.readouterr()
    assert mocaps("evaluate", run, "--train", tracks, "--test", tracks, "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["steps"] == 3
    assert result["command"].startswith("mocaps ")
    assert runs.load(run).report["evaluation"] == result
    assert mocaps("evaluate", run, "--train", tracks, "--test", tracks) == 0
    assert "online probe" in capsys.readouterr().out
    out = tmp_path / "out.npz"
    assert mocaps("embed", tracks, "--model", run, "--out", out, "--only", "nu", "error") == 0
    with np.load(out) as arrays:
        assert arrays["nu"].shape == (60, 6)
        assert set(arrays.files) == {"nu", "error"}


def test_data_and_config(tmp_path, capsys):
    out = tmp_path / "t20.npz"
    assert mocaps("data", "t20", "--split", "test", "--length", "8", "--out", out) == 0
    with np.load(out) as arrays:
        assert arrays["x"].shape == (10_000, 8, 2)
        assert np.bincount(arrays["y"]).tolist() == [500] * 20
    capsys.readouterr()
    assert mocaps("config", "show", "paper") == 0
    assert "num_segment_capsules = 80" in capsys.readouterr().out


def test_resuming_needs_no_settings_and_takes_a_larger_budget(run, capsys):
    assert mocaps("train", "--resume", "--steps", 6, "--out", run) == 0
    assert runs.load(run).step == 6
    assert "6 steps in" in capsys.readouterr().out
    command = runs.load(run).report["command"]
    assert mocaps("train", "--resume", "--out", run) == 0  # nothing is left to do
    assert runs.load(run).report["command"] == command


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--stepz", 3, "--out", "R"], r"Unknown option: --stepz\. Did you mean --steps\?"),
        (["--steps", "three", "--out", "R"], r"--steps: unable to convert \"three\" into int"),
        ([], r"--out"),
        (["--preset", "papper", "--out", "R"], r"expected a preset .* did you mean 'paper'"),
        (["--set", "model.lenght=3", "--out", "R"], r"'model.lenght'; did you mean 'model.length'"),
        (["--set", "model.length=x", "--out", "R"], r"model.length: expected a whole number"),
        (["--set", "steps", "--out", "R"], r"--set: expected key=value, got 'steps'"),
        (["--set", "model.length=30", "--out", "R"], r"a divisor of length = 30, got 8"),
        (["--data", "absent.npz", "--out", "R"], r"expected a file at .*absent.npz, found none"),
        (["--resume", "--out", "R"], r"expected a run to resume at R, found none"),
        (["--steps", -1, "--out", "R"], r"steps: expected 0 or more, got -1"),
        (["--seed", -1, "--out", "R"], r"seed: expected 0 to 2\^32 - 1, got -1"),
        (["--seed", 1, 1, "--out", "R"], r"expected different seeds, got 1 1"),
        (["--set", "model.dimension=3", "--out", "R"], r"data t20: expected a model of one point"),
    ],
)
def test_what_train_cannot_use_is_one_sentence(arguments, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert mocaps("train", *arguments) == 2
    assert re.search(sentence, refusal(capsys))
    assert list(tmp_path.iterdir()) == []


def test_training_data_is_checked_before_anything_is_written(tmp_path, capsys):
    x = np.zeros((100, 32, 2))
    x[3, 4, 1] = np.nan
    np.savez(tmp_path / "x.npz", x=x)
    out = tmp_path / "run"
    assert mocaps("train", "--data", tmp_path / "x.npz", "--out", out) == 2
    assert "got nan in sequence 3, frame 4" in refusal(capsys)
    assert mocaps("train", "--data", tmp_path / "x.npz", "--seed", 0, 1, "--out", out) == 2
    assert "got nan in sequence 3, frame 4" in refusal(capsys)
    assert not out.exists()


def test_other_commands_refuse_in_one_sentence_too(run, tracks, tmp_path, capsys):
    capsys.readouterr()
    out = tmp_path / "out.npz"
    half = tmp_path / "half.npz"
    half.write_bytes(tracks.read_bytes()[:500])
    for arguments, sentence in (
        (["embed", half, "--model", run, "--out", out], "damaged"),
        (["embed", tracks, "--model", tmp_path / "no", "--out", out], "expected a run directory"),
        (["embed", tracks, "--model", run, "--out", tmp_path / "no" / "out.npz"], "directory"),
        (["embed", tracks, "--model", run, "--out", out, "--only", "mv"], "got 'mv'"),
        (["evaluate", run, "--train", tracks], "--train was given without --test"),
        (["evaluate", tmp_path], "found no config.toml"),
        (["evaluate"], "requires an argument"),
        (["data", "t20", "--split", "tset", "--out", out], "tset"),
        (["data", "t20", "--length", "1", "--out", out], "expected 2 points or more"),
        (["config", "show", "x"], "expected a preset among"),
        (["frobnicate"], "frobnicate"),
    ):
        assert mocaps(*arguments) == 2
        assert sentence in refusal(capsys)
    assert not out.exists()


def test_a_damaged_run_is_one_sentence(run, capsys):
    capsys.readouterr()
    state = run / runs.STATE
    state.write_bytes(state.read_bytes()[:1000])
    assert mocaps("train", "--resume", "--steps", 9, "--out", run) == 2
    assert "state.safetensors: expected safetensors, found a damaged file" in refusal(capsys)


def test_help_starts_quickly_and_without_torch():
    code = (
        "import sys; from mocaps.cli import main; main(['--help']); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.endswith("False\n")
    for command in ("train", "evaluate", "embed", "data", "report", "demo"):
        assert command in done.stdout


@pytest.mark.parametrize(
    "command", ["train", "evaluate", "embed", "data t20", "config show", "report", "demo"]
)
def test_every_command_has_an_example(command, capsys):
    assert mocaps(*command.split(), "--help") == 0
    assert re.search(rf"Example:\s+mocaps\s+{command}", capsys.readouterr().out)


def test_a_killed_run_is_taken_up_and_a_second_ctrl_c_run_too(tmp_path):
    """One process killed, one interrupted, against one left alone: the same bits."""
    settings = ["--steps", 40, "--set", *SMALL, "train.steps_per_epoch=10"]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    alone = process("train", *settings, "--out", whole)
    victim = process("train", *settings, "--out", killed)
    wait_for(killed / runs.METRICS)
    victim.send_signal(signal.SIGKILL)
    victim.communicate()
    alone.communicate(timeout=60)
    assert alone.returncode == 0
    victim = process("train", "--resume", "--out", killed, start_new_session=True)
    size = (killed / runs.METRICS).stat().st_size
    wait_for(killed / runs.METRICS, lambda file: file.stat().st_size > size or finished(killed))
    victim.send_signal(signal.SIGINT)
    _, err = victim.communicate(timeout=60)
    if not finished(killed):
        assert victim.returncode == 130
        assert f"mocaps train --resume --out {killed}" in err
    assert mocaps("train", "--resume", "--out", killed) == 0
    assert (whole / runs.MODEL).read_bytes() == (killed / runs.MODEL).read_bytes()


def finished(path):
    return runs.read_report(path).get("finished") is True


def wait_for(file, condition=lambda file: file.stat().st_size > 0, seconds=60):
    end = time.monotonic() + seconds
    while not (file.exists() and condition(file)):
        assert time.monotonic() < end, f"{file} did not come"
        time.sleep(0.005)


def test_several_seeds_side_by_side_stop_together_and_resume(tmp_path):
    out = tmp_path / "runs"
    child = process("train", "--steps", 100000, "--set", *SMALL, "--seed", 0, 1, "--out", out)
    for seed in (0, 1):
        wait_for(out / f"seed{seed}" / runs.METRICS)
    child.send_signal(signal.SIGINT)
    printed, err = child.communicate(timeout=60)
    assert child.returncode == 130
    assert f"mocaps: stopped; go on with: mocaps train --resume --out {out}\n" == err
    assert "seed0" in printed
    assert "seed1" in printed
    states = [runs.load_state(out / f"seed{seed}") for seed in (0, 1)]
    assert all(state is not None and state.step > 0 for state in states)
    assert [runs.load(out / f"seed{s}").config.train.seed for s in (0, 1)] == [0, 1]


@pytest.mark.skipif(os.geteuid() != 0, reason="a small file system can only be mounted by root")
@pytest.mark.usefixtures("small_data")
def test_a_full_disk_is_one_sentence_and_the_run_resumes(tmp_path, capsys, monkeypatch):
    from mocaps import train

    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1500k", "tmpfs", disk]).returncode:
        pytest.skip("cannot mount")
    try:
        filler = disk / "filler"
        filler.write_bytes(bytes(500_000))
        monkeypatch.setattr(train, "SAVE_EVERY", -1.0)
        assert mocaps("train", "--steps", 9, "--set", *SMALL, "--out", disk / "run") == 2
        assert "the disk is full" in refusal(capsys)
        filler.unlink()
        assert mocaps("train", "--resume", "--out", disk / "run") == 0
        assert mocaps("train", "--steps", 9, "--set", *SMALL, "--out", tmp_path / "whole") == 0
        models = [path / runs.MODEL for path in (disk / "run", tmp_path / "whole")]
        assert models[0].read_bytes() == models[1].read_bytes()
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_meter_tells_rate_accuracy_and_time_to_go(monkeypatch):
    clock = iter([0.0, 1.0, 2.0, 3.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    seen = []
    meter = Meter(seen.append, 100, 1100, 0.0)
    meter.watch(200, 1.0, {"snippet": 1.0, "total": 2.0})
    meter.epoch({"validation_accuracy": 0.25})
    meter.watch(300, 2.0, {"snippet": 1.0})
    assert seen[0] == Status(200, 1100, 100.0, {"snippet": 1.0}, None, 9.0)
    assert seen[1] == Status(300, 1100, 100.0, {"snippet": 1.0}, 0.25, 8.0)
    assert Status.from_json(seen[1].to_json()) == seen[1]
    line = progress.numbers(seen[1])
    assert line == "step 300/1,100  100 steps/s  validation 25.0%  0:08 left"


def test_a_terminal_gets_two_live_lines_a_run(monkeypatch):
    import io

    from rich.console import Console

    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    monkeypatch.setattr("rich.get_console", lambda: console)
    shown = progress._Live(["seed0", "seed1"])
    shown.update("seed0", Status(5, 10, 2.0, {"snippet": 1.5}, 0.5, 61.0))
    shown.update("seed1", Status(5, None, 2.0, {"snippet": 1.5}, None, None))
    console.print(shown._table())
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "step 5/10  2 steps/s  validation 50.0%  1:01 left" in text
    assert "snippet 1.5" in text


def test_embedding_is_interrupted_without_leaving_anything(run, tracks, tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("mocaps.embed.explain", interrupted)
    before = sorted(p.name for p in tmp_path.iterdir())
    assert mocaps("embed", tracks, "--model", run, "--out", tmp_path / "o.npz") == 130
    assert sorted(p.name for p in tmp_path.iterdir()) == before


def test_what_nobody_foresaw_is_one_sentence_unless_asked(run, capsys, monkeypatch):
    def broken(_):
        raise ZeroDivisionError("what?")

    capsys.readouterr()
    monkeypatch.setattr(runs, "load", broken)
    assert mocaps("evaluate", run) == 1
    assert "ZeroDivisionError: what? (not foreseen" in refusal(capsys)
    monkeypatch.setenv("MOCAPS_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        mocaps("evaluate", run)


@pytest.mark.usefixtures("small_data")
def test_a_run_that_diverges_says_so_with_exit_code_1(tmp_path, capsys):
    out = tmp_path / "run"
    settings = [*SMALL, "train.learning_rate=1e30"]
    assert mocaps("train", "--steps", 20, "--set", *settings, "--out", out) == 1
    assert re.search(r"stopped being finite in step \d+; a smaller", refusal(capsys))
    assert not (out / runs.MODEL).exists()
