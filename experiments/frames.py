"""Which frame? The preset `equivariant` beside the same network behind frames of the whole motion.

    python experiments/frames.py [--steps 8000] [--seed 0] [--only NAME ...]

What is compared: each motion is brought to the origin, to size one, and turned so that a direction
of the whole lies along the x axis; the plain network (frame = "none", everything else as in the
preset) reads the result. The preset itself has no frame of the whole in what nu is made of: each
snippet has its own. All are trained alike and judged on *validation* data: this chose the preset.
A report each goes to results/frames/NAME.json, and the table to results/frames.md.

Only the winner is in the package; the others live here.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mocaps import atomic, losses, process
from mocaps import config as configs
from mocaps.data import batches
from mocaps.data.trajectory20 import trajectory20
from mocaps.evaluate import by_budget
from mocaps.model import MCAE, parameter_count
from mocaps.probe import OnlineProbe
from mocaps.train import fit

RESULTS = Path(__file__).parents[1] / "results"


def first_point(x: Tensor) -> Tensor:
    return x[:, 0]


def displacement(x: Tensor) -> Tensor:
    return x[:, -1] - x[:, 0]


def first_chord(x: Tensor) -> Tensor:
    return x[:, 7] - x[:, 0]


def fourier(x: Tensor) -> Tensor:
    """The first temporal Fourier coefficient of x + iy."""
    return torch.view_as_real(torch.fft.fft(torch.view_as_complex(x.contiguous()))[:, 1])


def principal_axis(x: Tensor) -> Tensor:
    """The first one, up to its sign: half the phase of the second moment."""
    z = torch.view_as_complex(x.contiguous())
    return torch.view_as_real(torch.polar(torch.ones(len(z)), (z * z).mean(1).angle() / 2))


DIRECTIONS = {
    "first point": first_point,
    "net displacement": displacement,
    "first snippet's chord": first_chord,
    "first Fourier coefficient": fourier,
    "principal axes, averaged": principal_axis,
}
OURS = "each snippet in its own"


def canonical(x: Tensor, name: str) -> Tensor:
    """Centroid at the origin, size one, the direction along x; where there is none, as it is."""
    y = x - x.mean(1, keepdim=True)
    y = y / y.square().sum(-1).mean(1).sqrt().clamp(min=1e-6)[:, None, None]
    direction = torch.view_as_complex(DIRECTIONS[name](y).contiguous())
    back = torch.polar(torch.ones(len(y)), -direction.angle())
    return torch.view_as_real(torch.view_as_complex(y.contiguous()) * back[:, None])


class InFrame(nn.Module):
    """A plain network behind a frame. An axis has two directions: in training one of them is drawn
    for each view, and nu is the mean over both."""

    def __init__(self, mcae: MCAE, name: str) -> None:
        super().__init__()
        self.mcae, self.name = mcae, name

    def embed(self, x: Tensor) -> Tensor:
        y = canonical(x, self.name)
        if "averaged" not in self.name:
            return self.mcae.embed(y)
        return (self.mcae.embed(y) + self.mcae.embed(-y)) / 2

    def objective(self, _: nn.Module, views: Tensor, config: Any) -> tuple[Any, Tensor]:
        y = canonical(views, self.name)
        if "averaged" in self.name:
            y = y * (1 - 2 * torch.randint(2, (len(y), 1, 1)))
        return losses.objective(self.mcae, y, config)


def conduct(name: str, steps: int, seed: int) -> dict[str, Any]:
    settings = {"train.steps": str(steps), "train.seed": str(seed)}
    if name != OURS:
        settings["model.frame"] = "none"
    config = configs.with_settings(configs.preset("equivariant"), settings)
    torch.manual_seed(seed)
    mcae = MCAE(config.model)
    model = mcae if name == OURS else InFrame(mcae, name)
    data = batches.of(config)
    begin, records = time.monotonic(), []
    objective = losses.objective if name == OURS else model.objective
    probe = OnlineProbe(config.num_features, data.num_classes)
    fit(model, data, config, probe=probe, objective=objective, on_epoch=records.append)
    seconds = time.monotonic() - begin
    model.eval()

    def features(split: str) -> tuple[np.ndarray, np.ndarray]:
        x, y = trajectory20(split, config.model.length)
        with torch.inference_mode():
            return torch.cat([model.embed(part) for part in x.split(512)]).numpy(), y.numpy()

    return {
        "frame": name,
        "command": shlex.join(["python", *sys.argv]),
        "steps": steps,
        "seed": seed,
        "seconds": round(seconds, 1),
        "parameters": parameter_count(model),
        "contrast": records[-1]["contrast"],
        "fitted_on": "t20 labels",
        "scored_on": "t20 validation",
        **by_budget(*features("labels"), *features("validation")),
        "config": configs.to_dict(config),
    }


def table(reports: list[dict[str, Any]]) -> str:
    """Accuracies in %, best first."""
    lines = [
        "Accuracy in % on T20's validation set, by labels that the probe saw; seed "
        f"{reports[0]['seed']}, {reports[0]['steps']:,} steps. Made by "
        "`python experiments/frames.py`.",
        "",
        "| frame | contrast at the end | linear 200 | 2,000 | 10,000 "
        "| 1-NN (cosine) 200 | 2,000 | 10,000 |",
        "|---|---|---|---|---|---|---|---|",
    ]
    key = lambda r: -r["logistic"]["200"]["mean"]  # noqa: E731
    for r in sorted(reports, key=key):
        scores = [r["logistic"], r["nearest_neighbour"]["cosine"]]
        cells = [f"{100 * s[b]['mean']:.1f}" for s in scores for b in ("200", "2000", "10000")]
        lines.append(f"| {r['frame']} | {r['contrast']:.2f} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=8_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", default=[OURS, *DIRECTIONS])
    options = parser.parse_args()
    process.settle()
    folder = RESULTS / "frames"
    folder.mkdir(parents=True, exist_ok=True)
    for name in options.only:
        file = folder / f"{name.replace(' ', '-').replace(',', '').replace(chr(39), '')}.json"
        if file.exists():
            print(f"{name}: {file} is there")
            continue
        report = conduct(name, options.steps, options.seed)
        atomic.write_text(file, json.dumps(report, indent=1) + "\n")
        print(f"{name}: contrast {report['contrast']:.2f}, {report['seconds']:.0f} s", flush=True)
    reports = [json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))]
    atomic.write_text(RESULTS / "frames.md", table(reports))
    print(table(reports))


if __name__ == "__main__":
    main()
