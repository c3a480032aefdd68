"""One point of the growth of cost: time and peak memory at one size, in a process of its own."""

from __future__ import annotations

import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.measuring import Laps, Memory
from benchmarks.rows import NEVER, fit, made_up, warm_up
from mocaps import config as configs
from mocaps import train
from mocaps.data import batches
from mocaps.data.trajectory20 import trajectory20
from mocaps.embed import embed_file
from mocaps.model import build


def step(settings: dict[str, str], quick: bool) -> dict[str, Any]:
    """A training step inside `fit` of preset paper with settings, on made-up data."""
    config = configs.with_settings(
        configs.preset("paper"), {**settings, "train.steps": NEVER, "train.steps_per_epoch": NEVER}
    )
    warm_up()
    memory = Memory()
    source = made_up(config)
    # Laps of whole chunks of views: between them the cost of making views is the same.
    values = 2 * config.train.batch_size * source.validation_x[0].numel()
    chunk = max(1, min(train.STEPS_PER_CHUNK, train.CHUNK_NUMBERS // values))
    laps = fit(config, source, Laps(2 if quick else 5, chunk))
    return laps.result() | {"bytes": memory.peak()}


def embed(count: int, folder: str) -> dict[str, Any]:
    """`mocaps embed --only nu` of a mapped file of so many sequences."""
    config = configs.preset("paper")
    with tempfile.TemporaryDirectory(dir=folder) as directory:
        source = Path(directory) / "x.npz"
        write_tracks(source, count)
        model = build(config.model)
        warm = trajectory20("test")[0][:512]
        with torch.inference_mode():
            model.eval().embed(warm)
        memory = Memory()
        cpu, wall = time.process_time(), time.perf_counter()
        embed_file(
            model,
            config,
            source,
            Path(directory) / "nu.npz",
            only=("nu",),
            watch=memory.sample,
        )
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return {"seconds": cpu, "wall": wall, "bytes": memory.own(), "with_mapped": memory.peak()}


def write_tracks(path: Path, count: int) -> None:
    """Trajectories over and over, uncompressed, ten thousand at a time."""
    x = trajectory20("test")[0].numpy()
    header = {"descr": x.dtype.str, "fortran_order": False, "shape": (count, *x.shape[1:])}
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive,
        archive.open("x.npy", "w", force_zip64=True) as member,
    ):
        np.lib.format.write_array_header_2_0(member, header)  # type: ignore[arg-type]
        for start in range(0, count, len(x)):
            member.write(x[: count - start].data)


def bytes_on_disk(count: int) -> int:
    """What `embed` has on the disk at its fullest: x, and nu twice while it is zipped."""
    model = configs.preset("paper").model
    each = int(np.prod(batches.input_shape(configs.preset("paper")))) + 2 * model.num_features
    return 4 * count * each
