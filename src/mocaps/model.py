"""The motion capsule autoencoder, Eq. 1 to 4 of the paper.

Snippets: f_CONV gives each of the N snippet capsules a transformation A and an activation mu; the
templates t, moved and mixed, give the snippet back:

    t_hat_ij = A_i t_ij                               (1)
    x_hat_j  = sum_i mu_i t_hat_ij                    (2)

Segments: f_LSTM and f_FC read the snippets' capsules and give each of the M segment capsules a
transformation B and an activation nu; the segment templates (P, alpha), moved and mixed, give the
snippets' capsules back:

    h = f_LSTM(A, mu; T),  B^k, nu^k = f_FC^k(h)      (3)
    P_hat^k_ij = B^k P^k_ij,
    A_hat_i = sum_k nu^k P_hat^k_i,  mu_hat_i = sum_k nu^k alpha^k_i    (4)

With `normalised_mixtures` the sums of (2) and (4) are divided by the sum of their weights.
Transformations are (d, d + 1), see mocaps.geometry; templates are homogeneous rows (0, x, y), as
the segment encoder reads them: the zero gets no gradient and stays.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from mocaps import geometry
from mocaps.capsules import MCAEOutput, SegmentCapsules, SnippetCapsules
from mocaps.config import ModelConfig
from mocaps.layers import BiLSTM, CapsuleLinear, HalvingConv, uniform

HIDDEN = 32  # of the LSTM, and of each segment capsule's own linear layer (appendix)


def transformation(
    raw: Float[Tensor, "*batch parameters"], config: ModelConfig
) -> Float[Tensor, "*batch d d1"]:
    """The transformation that (s, t, theta) stand for, in the configuration's reading."""
    d = config.dimension
    s, t, theta = raw[..., 0], raw[..., 1 : 1 + d], raw[..., 1 + d :]
    if config.transformation == "squashed":
        return geometry.squashed_similarity(s, t, theta, config.translation_limit)
    return geometry.similarity(s, t, theta, config.translation_limit)


class Activation(nn.Module):
    """Sigmoid; in training, with the released code's uniform noise on the logit."""

    def __init__(self, noise: float) -> None:
        super().__init__()
        self.noise = noise

    def forward(self, logit: Tensor) -> Tensor:
        if self.training and self.noise:
            logit = logit + torch.empty_like(logit).uniform_(-self.noise, self.noise)
        return logit.sigmoid()


class SnippetAutoencoder(nn.Module):
    """Snippet templates, and the capsules that explain each snippet by them."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        d, l, N = config.dimension, config.snippet_length, config.num_snippet_capsules
        # Three layers; as many as there are halvings of a snippet of less than eight steps.
        depth = min(3, int(math.log2(l)))
        channels = [d] + [8 * 2**i for i in range(depth)]
        self.convs = nn.Sequential(
            *(HalvingConv(a, b) for a, b in zip(channels, channels[1:], strict=False))
        )
        parameters = 1 + geometry.num_similarity_parameters(d)
        self.out = nn.Linear(channels[-1], N * parameters)
        bound = 1 / math.sqrt(channels[-1])
        nn.init.uniform_(self.out.weight, -bound, bound)
        self.activation = Activation(config.activation_noise)
        self.templates = nn.Parameter(_random_lines(N, l, d))

    @property
    def points(self) -> Float[Tensor, "N l d"]:
        """The templates without their homogeneous column."""
        return self.templates[..., 1:]

    def encode(self, x: Float[Tensor, "batch L d"]) -> Float[Tensor, "batch S N parameters"]:
        """f_CONV: mu's logit, s, t and theta of every snippet and capsule."""
        c = self.config
        snippets = x.reshape(-1, c.snippet_length, c.dimension)
        features = self.convs(snippets)
        features = features[:, 0] if features.shape[1] == 1 else features.mean(1)
        return self.out(features).view(len(x), c.num_snippets, c.num_snippet_capsules, -1)

    def decode(
        self, capsules: SnippetCapsules, points: Float[Tensor, "N l d"]
    ) -> Float[Tensor, "batch L d"]:
        """Templates moved and mixed."""
        A, mu = capsules.A, capsules.mu
        batch, S, N, d, _ = A.shape
        weight = mu / mu.sum(-1, keepdim=True) if self.config.normalised_mixtures else mu
        # sum_i mu_i A_i (t_ij, 1) is one contraction over (capsule i, homogeneous axis).
        t = F.pad(points, (0, 1), value=1.0).transpose(1, 2).reshape(N * (d + 1), -1)
        mixed = (weight[..., None, None] * A).transpose(2, 3).reshape(batch, S * d, N * (d + 1))
        x_hat = mixed @ t  # Eq. (1) and (2)
        return x_hat.view(batch, S, d, -1).transpose(2, 3).reshape(batch, -1, d)


class SegmentAutoencoder(nn.Module):
    """Segment templates made of snippet templates, and the capsules that explain a sequence."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        d, N, M, S = (
            config.dimension,
            config.num_snippet_capsules,
            config.num_segment_capsules,
            config.num_snippets,
        )
        similarity = geometry.num_similarity_parameters(d)
        free = similarity if config.transformation == "similarity" else d * (d + 1)
        self.lstm = BiLSTM(N * (1 + d * (d + 1)), N * config.snippet_length * (d + 1), HIDDEN)
        self.hidden = nn.Linear(2 * HIDDEN, M * HIDDEN)
        self.out = CapsuleLinear(M, HIDDEN, 1 + free)
        self.activation = Activation(config.activation_noise)
        self.P = uniform(math.sqrt(6 / (S + 7)), M, S, N, 1 + similarity)

    def features(
        self, capsules: SnippetCapsules, templates: Float[Tensor, "N l d1"]
    ) -> Float[Tensor, "batch M hidden"]:
        """f_LSTM, and the hidden layer of every f_FC."""
        mu, A = capsules.mu, capsules.A
        x = torch.cat([mu, A.flatten(2)], -1).transpose(0, 1).contiguous()
        h = self.lstm(x, templates.detach().flatten())
        return F.relu(self.hidden(F.relu(h)), inplace=True).unflatten(-1, (-1, HIDDEN))

    def encode(
        self, capsules: SnippetCapsules, templates: Float[Tensor, "N l d1"]
    ) -> SegmentCapsules:
        """B and nu of every segment capsule."""
        raw = self.out(self.features(capsules, templates))  # Eq. (3)
        if self.config.transformation == "squashed":
            B = geometry.squash(raw[..., 1:].unflatten(-1, (2, 3)), self.config.translation_limit)
        else:
            B = transformation(raw[..., 1:], self.config)
        return SegmentCapsules(B, self.activation(raw[..., 0]), raw)

    def templates(self) -> tuple[Float[Tensor, "M S N d d1"], Float[Tensor, "M S N"]]:
        """P and alpha of every segment capsule: how its template is made of snippet templates."""
        return transformation(self.P[..., 1:], self.config), self.activation(self.P[..., 0])

    def decode(self, capsules: SegmentCapsules) -> SnippetCapsules:
        """Segment templates moved and mixed."""
        B, nu = capsules.B, capsules.nu
        P, alpha = self.templates()
        batch, M, d, _ = B.shape
        _, S, N, _, _ = P.shape
        weight = nu / nu.sum(-1, keepdim=True) if self.config.normalised_mixtures else nu
        # P_hat is never formed: sum_k nu_k B_k P_k is one contraction over (segment capsule k,
        # inner axis). Its last homogeneous row, (0, 1), only adds sum_k nu_k b_k to translations.
        mixed = (weight[..., None, None] * B).transpose(1, 2)
        linear = mixed[..., :d].reshape(batch * d, M * d)
        inner = P.flatten(1, 2).transpose(1, 2).reshape(M * d, S * N * (d + 1))
        A = (linear @ inner).view(batch, d, S, N, d + 1)
        shift = mixed[..., d].sum(2)[:, :, None, None, None]
        A = A + F.pad(shift, (d, 0))
        A = A.permute(0, 2, 3, 1, 4)  # Eq. (4)
        if self.config.transformation == "squashed":
            A = geometry.squash(A, self.config.translation_limit)
        mu = (weight @ alpha.flatten(1)).view(batch, S, N)  # Eq. (4)
        return SnippetCapsules(A, mu)


class MCAE(nn.Module):
    """The motion capsule autoencoder of one point.

    >>> model = MCAE(ModelConfig(length=16, num_segment_capsules=5))
    >>> output = model(torch.zeros(3, 16, 2))
    >>> output.segments.nu.shape, output.reconstruction.shape
    (torch.Size([3, 5]), torch.Size([3, 16, 2]))
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.snippet = SnippetAutoencoder(config)
        self.segment = SegmentAutoencoder(config) if config.num_segment_capsules else None

    def forward(self, x: Float[Tensor, "batch L d"], *, from_segments: bool = True) -> MCAEOutput:
        """The sequences explained; `from_segments=False` leaves the second reconstruction out."""
        _check_input(x, (self.config.length, self.config.dimension))
        raw = self.snippet.encode(x)
        A = transformation(raw[..., 1:], self.config)
        logit = raw[..., 0]
        mixed = SnippetCapsules(A, self.snippet.activation(logit))
        x_hat = self.snippet.decode(mixed, self.snippet.points)
        if self.segment is None:
            return MCAEOutput(mixed, x_hat)
        # With activation noise the released code draws mu a second time for the segment encoder.
        noisy = self.training and self.snippet.activation.noise > 0
        snippets = SnippetCapsules(A, self.snippet.activation(logit)) if noisy else mixed
        segments = self.segment.encode(snippets, self.snippet.templates)
        from_P = self.segment.decode(segments)
        second = (
            self.snippet.decode(from_P, self.snippet.points.detach()) if from_segments else None
        )
        return MCAEOutput(snippets, x_hat, segments, from_P, second)

    def embed(self, x: Float[Tensor, "batch L d"]) -> Float[Tensor, "batch features"]:
        """What the motions are: nu alone, without what only reconstruction needs."""
        _check_input(x, (self.config.length, self.config.dimension))
        raw = self.snippet.encode(x)
        mu = self.snippet.activation(raw[..., 0])
        if self.segment is None:
            return mu[:, 0]
        capsules = SnippetCapsules(transformation(raw[..., 1:], self.config), mu)
        features = self.segment.features(capsules, self.snippet.templates)
        return self.segment.activation(self.segment.out(features, first=1)[..., 0])

    @torch.no_grad()
    def snippet_templates(self) -> Float[Tensor, "N l d"]:
        """The curves that snippets are made of."""
        return self.snippet.points.clone()

    @torch.no_grad()
    def segment_templates(self) -> Float[Tensor, "M L d"]:
        """The curves that sequences are made of: each segment template, decoded."""
        if self.segment is None:
            return self.snippet_templates()
        P, alpha = self.segment.templates()
        if self.config.transformation == "squashed":  # as the authors draw them
            P = geometry.squash(P, self.config.translation_limit)
        return self.snippet.decode(SnippetCapsules(P, alpha), self.snippet.points)


class MultiPointMCAE(nn.Module):
    """One MCAE for every point of a body (MCAE-MP): points, planes and bodies are folded into the
    batch, nu of points and planes is concatenated, nu of bodies is averaged."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.mcae = MCAE(config)

    def fold(self, x: Float[Tensor, "batch L *bodies K d"]) -> Float[Tensor, "folded L d2"]:
        """Every point of every body in every plane a sequence of its own, in the order (batch,
        body, plane, point)."""
        c = self.config
        d = 3 if c.planes else c.dimension
        if x.ndim == 4:
            x = x.unsqueeze(2)
        if x.ndim != 5 or (x.shape[1], *x.shape[3:]) != (c.length, c.num_points, d):
            raise ValueError(
                f"expected points of shape (batch, {c.length}, [bodies,] {c.num_points}, {d}), "
                f"got {tuple(x.shape)}"
            )
        x = x.permute(0, 2, 3, 1, 4)  # batch, body, point, time, axis
        if c.planes:
            xy_yz_zx = x[..., [0, 1, 1, 2, 2, 0]].unflatten(-1, (3, 2))
            x = xy_yz_zx.permute(0, 1, 4, 2, 3, 5)
        return x.reshape(-1, c.length, c.dimension)

    def join(self, nu: Float[Tensor, "folded M"], batch: int) -> Float[Tensor, "batch features"]:
        """One representation a sample."""
        return nu.view(batch, -1, self.config.num_features).mean(1)

    def forward(self, x: Float[Tensor, "batch L *bodies K d"], **kwargs: bool) -> MCAEOutput:
        """Every folded sequence explained; `join` makes one representation of their nu."""
        return self.mcae(self.fold(x), **kwargs)

    def embed(self, x: Float[Tensor, "batch L *bodies K d"]) -> Float[Tensor, "batch features"]:
        """What the motions are."""
        return self.join(self.mcae.embed(self.fold(x)), len(x))

    def snippet_templates(self) -> Float[Tensor, "N l d"]:
        """The curves that snippets are made of."""
        return self.mcae.snippet_templates()

    def segment_templates(self) -> Float[Tensor, "M L d"]:
        """The curves that sequences are made of."""
        return self.mcae.segment_templates()


def build(config: ModelConfig) -> MCAE | MultiPointMCAE:
    """The model that a configuration describes."""
    multi = config.num_points > 1 or config.planes
    return MultiPointMCAE(config) if multi else MCAE(config)


def parameter_count(*modules: nn.Module) -> int:
    """Trained numbers."""
    return sum(p.numel() for p in _parameters(modules))


def _parameters(modules: tuple[nn.Module, ...]) -> Iterator[nn.Parameter]:
    for module in modules:
        yield from module.parameters()


def _random_lines(N: int, l: int, d: int) -> Float[Tensor, "N l d1"]:
    """The released code's start: a point near the origin moved l - 1 times by x > k x + b."""
    point = torch.empty(N, d).uniform_(-0.5 / l, 0.5 / l)
    k = 2 * torch.empty(N, 1).uniform_(-1 / l, 1 / l).sigmoid()
    b = torch.empty(N, d).uniform_(-1 / l, 1 / l)
    line = [point]
    for _ in range(l - 1):
        line.append(k * line[-1] + b)
    return F.pad(torch.stack(line, 1), (1, 0))


def _check_input(x: Tensor, shape: tuple[int, int]) -> None:
    if x.ndim != 3 or x.shape[1:] != shape:
        raise ValueError(
            f"expected sequences of shape (batch, {shape[0]}, {shape[1]}), got {tuple(x.shape)}"
        )
