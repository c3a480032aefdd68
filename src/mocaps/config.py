"""Everything that decides a run: frozen dataclasses, the presets, TOML in and out.

Where the paper's text and its released code disagree there is one field here, with a comment that
says so, and a row in docs/fidelity.md. This module imports no torch, so that `--help` is quick.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import math
import tomllib
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import tomli_w

from mocaps.errors import InputError

FORMAT = 1  # of a run directory; raised when an older mocaps could no longer read a newer run


def _expect(condition: bool, name: str, wanted: str, value: object) -> None:
    if not condition:
        raise InputError(f"{name}: expected {wanted}, got {value!r}")


@dataclass(frozen=True)
class ModelConfig:
    """Sizes of the capsules and how their parameters become transformations (Eq. 1 to 4)."""

    dimension: int = 2
    """d: coordinates of a point, 2 or 3."""
    length: int = 32
    """L: time steps of a segment."""
    snippet_length: int = 8
    """l: time steps of a snippet; divides L."""
    num_snippet_capsules: int = 8
    """N."""
    num_segment_capsules: int = 80
    """M; 0 leaves the segment autoencoder out (the appendix's single-layer model)."""
    num_points: int = 1
    """K: points that share the model and have their nu concatenated (MCAE-MP)."""
    planes: bool = False
    """3-D input seen as three 2-D views (xy, yz, zx), each a point of its own."""
    transformation: Literal["similarity", "squashed"] = "similarity"
    """The paper's similarity, or the released code's twice squashed affine matrix."""
    translation_limit: float = 1.5
    """Translations are clamped to +- this."""
    normalised_mixtures: bool = True
    """Eq. 2 and 4 divided by the sum of the weights: the released code does, the paper does not."""
    activation_noise: float = 0.0
    """Uniform noise of +- this on the logits of mu, nu and alpha in training: 2 in the released
    code; the paper is silent."""
    frame: Literal["none", "snippets"] = "none"
    """Ours: each snippet read in a frame of its own that moves with it (mocaps.frames), so that nu
    cannot depend on place, size or direction, and A and B move exactly with the input."""
    reflections: bool = False
    """Frames that turn over with their motion: then a mirror image is the same motion too."""
    lstm_reads_templates: bool = True
    """f_LSTM's input holds the templates, as in the released code. They are the same for every
    input, which is what a bias is: without them it can say as much, with far fewer numbers."""
    lstm_hidden: int = 32
    """Of f_LSTM, in each direction (appendix)."""
    head_hidden: int = 32
    """Of each segment capsule's own linear layer (appendix)."""

    def __post_init__(self) -> None:
        _expect(self.dimension in (2, 3), "dimension", "2 or 3", self.dimension)
        _expect(self.length >= 1, "length", "a positive number of steps", self.length)
        _expect(
            self.snippet_length >= 2 and self.length % self.snippet_length == 0,
            "snippet_length",
            f"at least 2 and a divisor of length = {self.length}",
            self.snippet_length,
        )
        _expect(
            self.num_snippet_capsules >= 1,
            "num_snippet_capsules",
            "at least 1",
            self.num_snippet_capsules,
        )
        _expect(
            self.num_segment_capsules >= 0,
            "num_segment_capsules",
            "0 or more",
            self.num_segment_capsules,
        )
        _expect(
            self.num_segment_capsules > 0 or self.snippet_length == self.length,
            "snippet_length",
            "equal to length in a single-layer model (num_segment_capsules = 0)",
            self.snippet_length,
        )
        _expect(self.num_points >= 1, "num_points", "at least 1", self.num_points)
        _expect(
            not self.planes or self.dimension == 2,
            "dimension",
            "2 when planes is set",
            self.dimension,
        )
        _expect(
            self.transformation == "similarity" or self.dimension == 2,
            "dimension",
            "2 for the squashed transformation of the released code",
            self.dimension,
        )
        _expect(self.translation_limit > 0, "translation_limit", "positive", self.translation_limit)
        _expect(self.activation_noise >= 0, "activation_noise", "0 or more", self.activation_noise)
        for name in ("lstm_hidden", "head_hidden"):
            _expect(getattr(self, name) >= 1, name, "at least 1", getattr(self, name))
        framed = self.frame != "none"
        _expect(framed or not self.reflections, "reflections", "false without a frame", True)
        if framed:
            # What is put back by a frame moves with it only as an average of points, not as a sum.
            _expect(self.normalised_mixtures, "normalised_mixtures", "true in a frame", False)
            _expect(
                self.transformation == "similarity",
                "transformation",
                "'similarity' in a frame",
                self.transformation,
            )
            _expect(not self.planes, "planes", "false in a frame", True)

    @property
    def num_snippets(self) -> int:
        """S = L / l."""
        return self.length // self.snippet_length

    @property
    def num_features(self) -> int:
        """Length of the vector that represents one input: nu of every point, or mu without M."""
        each = self.num_segment_capsules or self.num_snippet_capsules
        return each * self.num_points * (3 if self.planes else 1)


@dataclass(frozen=True)
class BaselineConfig:
    """The paper's baselines: another network in the place of the capsules, trained alike."""

    kind: Literal["none", "lstm", "conv"] = "none"
    """"none": the capsules that [model] describes. The others read of [model] only the length."""
    hidden: int = 512
    """D: length of the representation, the paper's "hidden param."."""
    conv_layers: Literal["printed", "counted"] = "printed"
    """1D-Conv: three halvings, a 1x1 convolution and an average, as the appendix prints; or five
    halvings without an average, whose size is what the paper's table of results counts."""

    def __post_init__(self) -> None:
        _expect(self.hidden >= 1, "hidden", "at least 1", self.hidden)


@dataclass(frozen=True)
class LossConfig:
    """Weights of Eq. 9, and the readings of Eq. 7 and 8."""

    snippet: float = 1.0
    """lambda^Sni: 1 for T20 in the paper, 10 in the released code."""
    segment: float = 1.0
    """lambda^Seg: 1 for T20 in the paper, 5 in the released code."""
    contrast: float = 1.0
    smoothness: float = 0.5
    sparsity: float = 0.05
    """Of |nu|^2; the released code halves the norm, which is a weight of 0.025."""
    spread: float = 0.0
    """Ours: how much it costs the segment capsules, together, to be as active on one motion as on
    any other."""
    temperature: float = 0.1
    """tau."""
    positive_in_denominator: bool = True
    """The released code sums Eq. 7's denominator over all j; as printed, over j != i. The presets
    take the former: as printed the representation stays poor (docs/fidelity.md has the runs)."""
    smoothness_at: Literal["every step", "snippet borders"] = "every step"
    """Eq. 8 takes every consecutive pair of x_hat; the released code the pairs at snippet borders,
    of both reconstructions."""
    centred: bool = False
    """Subtract the batch mean of nu before the cosine of Eq. 7 (ours: the contrast starts)."""

    def __post_init__(self) -> None:
        for name in ("snippet", "segment", "contrast", "smoothness", "sparsity", "spread"):
            _expect(getattr(self, name) >= 0, name, "0 or more", getattr(self, name))
        _expect(self.temperature > 0, "temperature", "positive", self.temperature)


@dataclass(frozen=True)
class DisturbConfig:
    """How the two views of a sample are made."""

    functions: tuple[str, ...] = ("rotate", "smooth")
    """Names from mocaps.disturb."""
    draw: Literal["each sample", "modulo", "in turn"] = "each sample"
    """"randomly determined" says the paper: each sample of each view meets one of the functions.
    The released code draws k of the k functions with replacement for a view and gives sample i the
    function i mod k. "in turn" (ours): each sample meets all functions, one after another."""
    sometimes: tuple[str, ...] = ()
    """Names of what a sample of a view then meets as well, each on a `share` of the samples."""
    share: float = 0.5
    spoiled: Literal["both views", "second view"] = "both views"
    """Which views meet `sometimes`. With one view spared, what is seen whole is told apart as
    finely as it can be, and what is spoiled is led to it."""
    max_angle: float = 30.0
    """Degrees either way, of rotate."""
    jitter_probability: float = 0.1
    """Of a joint: 0.1 in the paper, about 0.45 in the released code."""
    mask_probability: float = 0.2
    max_stretch: float = 1.4
    """Of stretch: the most by which one direction grows while the others shrink."""
    max_trim: float = 0.2
    """Of trim: share of the course that is cut off, both ends together."""
    max_warp: float = 0.5
    """Of warp: deviation of the logarithm of speed."""
    min_course: float = 0.7
    """Of partial: the least share of the course that is seen."""
    max_noise: float = 0.12
    """Of noise: deviation in units of the motion's size."""
    max_outliers: int = 3
    """Of outliers: points of a track."""
    max_missing: float = 0.4
    """Of missing: share of the points."""
    max_gap: float = 0.35
    """Of gap: share of the steps."""

    def __post_init__(self) -> None:
        known = ("rotate", "smooth", "jitter", "mask", "stretch", "reverse", "start", "warp")
        known += ("trim", "partial", "noise", "outliers", "missing", "gap")
        for name in (*self.functions, *self.sometimes):
            _expect(name in known, "functions", f"names among {', '.join(known)}", name)
        _expect(len(self.functions) > 0, "functions", "at least one disturbance", self.functions)
        for name in ("share", "max_trim", "min_course", "max_missing", "max_gap"):
            _expect(0 <= getattr(self, name) <= 1, name, "0 to 1", getattr(self, name))
        _expect(self.max_trim < 1, "max_trim", "below 1", self.max_trim)
        _expect(self.min_course > 0, "min_course", "above 0", self.min_course)
        _expect(self.max_stretch >= 1, "max_stretch", "at least 1", self.max_stretch)


@dataclass(frozen=True)
class DataConfig:
    """What is learned from."""

    name: str = "t20"
    """"t20", sampled on the fly, or the path of an .npz file with x (n, L, d), perhaps y (n,)."""


@dataclass(frozen=True)
class TrainConfig:
    """The loop."""

    seed: int = 0
    batch_size: int = 64
    learning_rate: float = 1e-3
    schedule: Literal["constant", "cosine"] = "constant"
    """cosine falls to zero at the last step of the budget."""
    steps: int = 0
    """A budget in steps, whose last weights are kept; 0: epochs and patience decide, and the
    weights of the best validation accuracy are kept."""
    minutes: float = 0.0
    """A budget in minutes; 0: epochs decide."""
    epochs: int = 1000
    steps_per_epoch: int = 156
    """10,000 samples in batches of 64, the last partial batch dropped."""
    patience: int = 100
    """Epochs without a better validation accuracy before it stops; 0: never. 100 in the paper, 200
    in the released code. Has no say where a budget in steps or minutes is set."""

    def __post_init__(self) -> None:
        _expect(0 <= self.seed < 2**32, "seed", "0 to 2^32 - 1", self.seed)
        _expect(
            self.batch_size >= 2,
            "batch_size",
            "at least 2 (the contrast needs a pair)",
            self.batch_size,
        )
        _expect(self.learning_rate > 0, "learning_rate", "positive", self.learning_rate)
        for name in ("steps", "minutes", "patience"):
            _expect(getattr(self, name) >= 0, name, "0 or more", getattr(self, name))
        for name in ("epochs", "steps_per_epoch"):
            _expect(getattr(self, name) >= 1, name, "at least 1", getattr(self, name))

    @property
    def total_steps(self) -> int:
        """The most steps that this run will take."""
        return self.steps or self.epochs * self.steps_per_epoch


@dataclass(frozen=True)
class Config:
    """One run, whole."""

    preset: str = "paper"
    """What the settings started from."""
    model: ModelConfig = field(default_factory=ModelConfig)
    baseline: BaselineConfig = field(default_factory=BaselineConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    disturb: DisturbConfig = field(default_factory=DisturbConfig)
    data: DataConfig = field(default_factory=DataConfig)
    train: TrainConfig = field(default_factory=TrainConfig)

    @property
    def num_features(self) -> int:
        """Length of the vector that represents one input."""
        capsules = self.baseline.kind == "none"
        return self.model.num_features if capsules else self.baseline.hidden


DEFAULT = "equivariant"
"""The preset of users who name none."""

PRESETS: dict[str, Config] = {
    # The paper's text to the letter; where it is silent, what trains best (docs/fidelity.md).
    "paper": Config(preset="paper"),
    # What the released code does.
    "authors": Config(
        preset="authors",
        model=ModelConfig(transformation="squashed", activation_noise=2.0),
        loss=LossConfig(
            snippet=10.0,
            segment=5.0,
            sparsity=0.025,
            smoothness_at="snippet borders",
        ),
        disturb=DisturbConfig(draw="modulo", jitter_probability=0.45),
        train=TrainConfig(patience=200),
    ),
    # Ours: what and where apart by construction (docs/equivariant.md).
    "equivariant": Config(
        preset="equivariant",
        model=ModelConfig(
            frame="snippets", lstm_reads_templates=False, lstm_hidden=64, head_hidden=8
        ),
        loss=LossConfig(snippet=10.0, centred=True, sparsity=0.002, spread=0.1, temperature=0.2),
        disturb=DisturbConfig(
            functions=("reverse", "start", "trim", "stretch"),
            draw="in turn",
            sometimes=("warp", "partial", "noise", "outliers", "missing", "gap", "smooth"),
            share=0.15,
            spoiled="second view",
            max_stretch=1.6,
        ),
        train=TrainConfig(batch_size=128, learning_rate=2e-3, schedule="cosine", steps=60_000),
    ),
}


def preset(name: str) -> Config:
    """The preset of that name.

    >>> preset("paper").model.num_segment_capsules
    80
    """
    if name not in PRESETS:
        raise InputError(
            f"expected a preset among {', '.join(PRESETS)}, got {name!r}{_nearest(name, PRESETS)}"
        )
    return PRESETS[name]


def with_settings(config: Config, settings: Mapping[str, Any], where: str = "--set") -> Config:
    """The configuration with `section.key` settings put in; text is read as TOML.

    >>> with_settings(preset("paper"), {"loss.sparsity": "0"}).loss.sparsity
    0.0
    """
    nested: dict[str, Any] = {}
    for key, value in settings.items():
        section, _, name = key.rpartition(".")
        if not section:
            raise InputError(
                "expected a setting section.key such as model.num_segment_capsules=64, "
                f"got {key!r}{_nearest(key, _all_keys())}"
            )
        if isinstance(value, str):
            with contextlib.suppress(tomllib.TOMLDecodeError):  # a bare word is a string
                value = tomllib.loads(f"value = {value}")["value"]
        nested.setdefault(section, {})[name] = value
    return _build(Config, nested, base=config, where=where, path="")


def load(path: Path) -> Config:
    """The configuration in a TOML file; keys that it leaves out come from its preset."""
    try:
        table = tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise InputError(f"expected a configuration at {path}, found no such file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"expected TOML in {path}, got: {error}") from None
    return from_dict(table, where=str(path))


def from_dict(table: Mapping[str, Any], where: str = "configuration") -> Config:
    """The configuration that a parsed TOML table describes."""
    name = table.get("preset", DEFAULT)
    if not isinstance(name, str):
        raise InputError(f"{where}: expected preset to be a string, got {name!r}")
    return _build(Config, table, base=preset(name), where=where, path="")


def to_dict(config: Config) -> dict[str, Any]:
    """Plain values, complete: what from_dict takes."""
    return dataclasses.asdict(
        config,
        dict_factory=lambda pairs: {
            key: list(value) if isinstance(value, tuple) else value for key, value in pairs
        },
    )


def to_toml(config: Config) -> str:
    """TOML text, complete: what load reads."""
    return tomli_w.dumps(to_dict(config))


def _build(kind: type, table: Mapping[str, Any], *, base: Any, where: str, path: str) -> Any:
    """`base` with the values of `table` put in, each checked against the field's type."""
    hints = typing.get_type_hints(kind)
    changes = {}
    for key, value in table.items():
        name = f"{path}{key}"
        if key not in hints:
            raise InputError(f"{where}: unknown key {name!r}{_nearest(name, _all_keys())}")
        if dataclasses.is_dataclass(hints[key]):
            if not isinstance(value, Mapping):
                raise InputError(
                    f"{where}: expected {name} to be a table of settings, got {value!r}"
                )
            changes[key] = _build(
                hints[key], value, base=getattr(base, key), where=where, path=f"{name}."
            )
        else:
            changes[key] = _checked(hints[key], value, f"{where}: {name}")
    try:
        return dataclasses.replace(base, **changes)
    except InputError as error:
        raise InputError(f"{where}: {path}{error}") from None


def _checked(hint: Any, value: Any, name: str) -> Any:
    """The value as the type wants it, or one sentence."""
    origin = typing.get_origin(hint)
    if origin is Literal:
        choices = typing.get_args(hint)
        if value not in choices:
            raise InputError(
                f"{name}: expected one of {', '.join(map(repr, choices))}, got {value!r}"
            )
        return value
    if origin is tuple:
        if isinstance(value, str):
            value = [value]
        if not isinstance(value, list | tuple):
            raise InputError(f"{name}: expected a list, got {value!r}")
        return tuple(_checked(typing.get_args(hint)[0], item, name) for item in value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if type(value) is not hint or (hint is float and not math.isfinite(value)):
        wanted = {
            int: "a whole number",
            float: "a finite number",
            bool: "true or false",
            str: "a string",
        }[hint]
        raise InputError(f"{name}: expected {wanted}, got {value!r}")
    return value


def _all_keys() -> list[str]:
    sections = [f for f in dataclasses.fields(Config) if f.name != "preset"]
    hints = typing.get_type_hints(Config)
    return ["preset"] + [
        f"{s.name}.{f.name}" for s in sections for f in dataclasses.fields(hints[s.name])
    ]


def _nearest(word: str, known: typing.Iterable[str]) -> str:
    """`; did you mean ...?` where something is near."""
    candidates = list(known)
    by_last = {name.rpartition(".")[2]: name for name in candidates}
    near = difflib.get_close_matches(word, candidates, n=1) or [
        by_last[k] for k in difflib.get_close_matches(word.rpartition(".")[2], by_last, n=1)
    ]
    return f"; did you mean {near[0]!r}?" if near else ""
