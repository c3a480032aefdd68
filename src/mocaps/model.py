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
With a `frame`, snippets are read in frames of their own (mocaps.frames), and so are Eq. 1 to 4:
A goes from template to snippet in the snippet's frame, B from segment template to sequence in the
whole's, and the frames are put back onto both. f_LSTM then also reads how the frames lie among
each other.

Inside, samples are columns (the last axis, see mocaps.layers) and a transformation is (column,
row), the order in which Eq. 1 to 4 contract it; the records that leave are batch first, (d, d + 1).
Templates are homogeneous rows (0, x, y), as the segment encoder reads them: the zero gets no
gradient and stays.
"""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from mocaps import geometry
from mocaps.capsules import MCAEOutput, SegmentCapsules, SnippetCapsules
from mocaps.config import ModelConfig
from mocaps.frames import Frames, num_place_features
from mocaps.layers import (
    BiLSTM,
    CapsuleHeads,
    HalvingConv,
    mixed,
    moved,
    similarity_in_the_plane,
    uniform,
)
from mocaps.products import matmul


def transformation(
    parameters: Float[Tensor, "capsules parameters *rest"], config: ModelConfig, *, columns: bool
) -> Float[Tensor, "capsules row column *rest"]:
    """The transformation that s, t, theta stand for, in the configuration's reading."""
    limit = config.translation_limit
    if config.transformation == "squashed":
        T = geometry.squashed_similarity(parameters.unbind(1), limit)
    elif config.dimension == 3:
        T = geometry.similarity(parameters.unbind(1), limit, 3)
    else:
        return similarity_in_the_plane(parameters, limit, columns)
    return stacked(T, columns)


def stacked(T: geometry.Entries, columns: bool) -> Float[Tensor, "capsules row column *rest"]:
    """Entries as one tensor, rows or columns first: the order in which they are contracted."""
    order = list(zip(*T, strict=True)) if columns else T
    return torch.stack([e for row in order for e in row], 1).unflatten(1, (len(order), -1))


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
        self.convs = nn.Sequential(*(HalvingConv(a, b) for a, b in pairwise(channels)))
        outputs = N * (1 + geometry.num_similarity_parameters(d))
        bound = 1 / math.sqrt(channels[-1])
        self.weight = uniform(bound, outputs, channels[-1])
        self.bias = uniform(bound, outputs, 1)
        self.activation = Activation(config.activation_noise)
        self.templates = nn.Parameter(_random_lines(N, l, d))

    @property
    def points(self) -> Float[Tensor, "N l d"]:
        """The templates without their homogeneous column."""
        return self.templates[..., 1:]

    def encode(self, x: Float[Tensor, "l d S n"]) -> Float[Tensor, "N parameters S n"]:
        """f_CONV: mu's logit, s, t and theta of every snippet."""
        _, _, S, n = x.shape
        features = self.convs(x.transpose(0, 1).flatten(2))
        features = features[:, 0] if features.shape[1] == 1 else features.mean(1)
        raw = torch.addmm(self.bias, self.weight, features)
        return raw.view(self.config.num_snippet_capsules, -1, S, n)

    def decode(
        self, A: Float[Tensor, "N d1 d S n"], mu: Float[Tensor, "N S n"], points: Tensor
    ) -> Float[Tensor, "l d S n"]:
        """Templates moved and mixed."""
        # sum_i mu_i A_i (t_ij, 1) is one contraction over (capsule i, homogeneous axis).
        t = F.pad(points, (0, 1), value=1.0).transpose(0, 1).flatten(1)
        weighted, _ = mixed(mu, A, self.config.normalised_mixtures)
        weighted = weighted.flatten(0, 1)
        return (t @ weighted.flatten(1)).view(len(t), *weighted.shape[1:])  # Eq. (1) and (2)


class SegmentAutoencoder(nn.Module):
    """Segment templates made of snippet templates, and the capsules that explain a sequence."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        d, N, S = config.dimension, config.num_snippet_capsules, config.num_snippets
        M = config.num_segment_capsules
        similarity = geometry.num_similarity_parameters(d)
        free = similarity if config.transformation == "similarity" else d * (d + 1)
        constant = N * config.snippet_length * (d + 1) if config.lstm_reads_templates else 0
        place = num_place_features(d) if config.frame != "none" else 0
        self.lstm = BiLSTM(N * (1 + d * (d + 1)) + place, constant, config.lstm_hidden)
        self.heads = CapsuleHeads(2 * config.lstm_hidden, M, config.head_hidden, 1 + free)
        self.activation = Activation(config.activation_noise)
        self.P = uniform(math.sqrt(6 / (S + 7)), M, 1 + similarity, S, N)

    def raw(
        self,
        A: Float[Tensor, "N d1 d S n"],
        mu: Float[Tensor, "N S n"],
        templates: Tensor,
        place: Float[Tensor, "features S n"] | None = None,
        first: int | None = None,
    ) -> Float[Tensor, "M parameters n"]:
        """The numbers that become nu and B, or the first few of them."""
        x = torch.cat([mu, A.flatten(0, 2)] + ([] if place is None else [place]))
        constant = templates.detach().flatten()
        h = F.relu(self.lstm(x, constant if self.config.lstm_reads_templates else None))
        return self.heads(h, first)  # Eq. (3)

    def encode(
        self,
        A: Float[Tensor, "N d1 d S n"],
        mu: Float[Tensor, "N S n"],
        templates: Tensor,
        place: Float[Tensor, "features S n"] | None = None,
    ) -> tuple[Float[Tensor, "M d1 d n"], Float[Tensor, "M n"], Float[Tensor, "M parameters n"]]:
        """B, nu, and the numbers that they were made from."""
        raw = self.raw(A, mu, templates, place)  # Eq. (3)
        if self.config.transformation == "squashed":
            numbers = raw[:, 1:].unbind(1)
            bounded = geometry.squash([numbers[:3], numbers[3:]], self.config.translation_limit)
            B = stacked(bounded, columns=True)
        else:
            B = transformation(raw[:, 1:], self.config, columns=True)
        return B, self.activation(raw[:, 0]), raw

    def templates(self) -> tuple[Float[Tensor, "M d d1 S N"], Float[Tensor, "M S N"]]:
        """P and alpha of every segment capsule."""
        return transformation(self.P[:, 1:], self.config, columns=False), self.activation(
            self.P[:, 0]
        )

    def decode(
        self, B: Float[Tensor, "M d1 d n"], nu: Float[Tensor, "M n"]
    ) -> tuple[Float[Tensor, "N d1 d S n"], Float[Tensor, "N S n"]]:
        """Segment templates moved and mixed: A_hat and mu_hat."""
        P, alpha = self.templates()
        M, d, d1, S, N = P.shape
        n = nu.shape[-1]
        weighted, weight = mixed(nu, B, self.config.normalised_mixtures)
        # P_hat is never formed: sum_k nu_k B_k P_k is one contraction over (segment capsule k,
        # inner axis) of homogeneous matrices, whose last row is (0, ..., 0, 1).
        last = torch.eye(d1, dtype=P.dtype, device=P.device)[-1].view(1, 1, d1, 1, 1)
        inner = torch.cat([P, last.expand(M, 1, d1, S, N)], 1).view(M * d1, -1)
        A = (
            matmul(inner.T, weighted.view(M * d1, d * n))
            .view(d1, S, N, d, n)
            .permute(2, 0, 3, 1, 4)
        )  # Eq. (4)
        if self.config.transformation == "squashed":
            rows = [[A[:, c, r] for c in range(d1)] for r in range(d)]
            A = stacked(geometry.squash(rows, self.config.translation_limit), columns=True)
        mu = (alpha.flatten(1).T @ weight).view(S, N, n).transpose(0, 1)  # Eq. (4)
        return A, mu


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

    def forward(
        self,
        x: Float[Tensor, "batch L d"],
        *,
        from_segments: bool = True,
        frames: Frames | None = None,
    ) -> MCAEOutput:
        """The sequences explained; `from_segments=False` leaves the second reconstruction out.

        `frames` are those of the sequences, where somebody has them already.
        """
        frames = frames or self.frames(x)
        raw = self.snippet.encode(self._columns(x if frames is None else frames.local))
        A = own_A = transformation(raw[:, 1:], self.config, columns=True)
        mu = self.snippet.activation(raw[:, 0])
        if frames is not None:
            A = moved(frames.snippets.permute(3, 2, 1, 0), own_A)
        x_hat = _batch_first(self.snippet.decode(A, mu, self.snippet.points))
        defined = None if frames is None else frames.defined
        if self.segment is None:
            return MCAEOutput(_snippet_capsules(A, mu), x_hat, defined=defined)
        if self.training and self.config.activation_noise:
            # The released code draws mu's noise a second time for the segment encoder.
            mu = self.snippet.activation(raw[:, 0])
        B, nu, raw = self.segment.encode(own_A, mu, self.snippet.templates, _place(frames))
        A_hat, mu_hat = self.segment.decode(B, nu)
        if frames is not None:
            whole = frames.whole.permute(2, 1, 0)
            A_hat, B = moved(whole.unsqueeze(2), A_hat), moved(whole, B)
        second = None
        if from_segments:
            points = self.snippet.points.detach()
            second = _batch_first(self.snippet.decode(A_hat, mu_hat, points))
        return MCAEOutput(
            _snippet_capsules(A, mu),
            x_hat,
            SegmentCapsules(B.permute(3, 0, 2, 1), nu.T, raw.permute(2, 0, 1)),
            _snippet_capsules(A_hat, mu_hat),
            second,
            defined,
        )

    def embed(
        self, x: Float[Tensor, "batch L d"], *, frames: Frames | None = None
    ) -> Float[Tensor, "batch features"]:
        """What the motions are: nu alone, without what only reconstruction needs."""
        frames = frames or self.frames(x)
        raw = self.snippet.encode(self._columns(x if frames is None else frames.local))
        mu = self.snippet.activation(raw[:, 0])
        if self.segment is None:
            return mu[:, 0].T
        A = transformation(raw[:, 1:], self.config, columns=True)
        logit = self.segment.raw(A, mu, self.snippet.templates, _place(frames), first=1)[:, 0]
        return self.segment.activation(logit).T

    def frames(self, x: Float[Tensor, "batch L d"]) -> Frames | None:
        """The frames in which the model reads sequences of one point; None for one without."""
        self._check(x)
        c = self.config
        if c.frame == "none":
            return None
        return Frames.of(x.unsqueeze(2), c.snippet_length, reflections=c.reflections)

    def _check(self, x: Tensor) -> None:
        c = self.config
        if x.ndim != 3 or x.shape[1:] != (c.length, c.dimension):
            raise ValueError(
                f"expected sequences of shape (batch, {c.length}, {c.dimension}), "
                f"got {tuple(x.shape)}"
            )

    def _columns(self, x: Float[Tensor, "batch L d"]) -> Float[Tensor, "l d S n"]:
        """Snippets with samples last, as the layers take them."""
        c = self.config
        return x.unflatten(1, (c.num_snippets, c.snippet_length)).permute(2, 3, 1, 0)

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
            rows = [list(row.unbind(1)) for row in P.unbind(1)]
            P = stacked(geometry.squash(rows, self.config.translation_limit), columns=False)
        # A segment template is a sequence whose snippets have P for A and alpha for mu.
        A, mu = P.permute(4, 2, 1, 3, 0), alpha.permute(2, 1, 0)
        return _batch_first(self.snippet.decode(A, mu, self.snippet.points))


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
        if x.ndim not in (4, 5) or (x.shape[1], *x.shape[-2:]) != (c.length, c.num_points, d):
            raise ValueError(
                f"expected points of shape (batch, {c.length}, [bodies,] {c.num_points}, {d}), "
                f"got {tuple(x.shape)}"
            )
        if x.ndim == 4:
            x = x.unsqueeze(2)
        x = x.permute(0, 2, 3, 1, 4)  # batch, body, point, time, axis
        if c.planes:
            xy_yz_zx = x[..., [0, 1, 1, 2, 2, 0]].unflatten(-1, (3, 2))
            x = xy_yz_zx.permute(0, 1, 4, 2, 3, 5)
        return x.reshape(-1, c.length, c.dimension)

    def join(self, nu: Float[Tensor, "folded M"], batch: int) -> Float[Tensor, "batch features"]:
        """One representation a sample."""
        return nu.reshape(batch, -1, self.config.num_features).mean(1)

    def frames(self, x: Float[Tensor, "batch L *bodies K d"]) -> Frames | None:
        """Those of the bodies, for each of their points: so the points' arrangement counts."""
        self.fold(x[:1])  # looks at the shape
        c = self.config
        if c.frame == "none":
            return None
        bodies = x.unsqueeze(2) if x.ndim == 4 else x
        bodies = bodies.transpose(1, 2).flatten(0, 1)
        return Frames.of(bodies, c.snippet_length, reflections=c.reflections)

    def forward(
        self, x: Float[Tensor, "batch L *bodies K d"], *, from_segments: bool = True
    ) -> MCAEOutput:
        """Every folded sequence explained; `join` makes one representation of their nu."""
        return self.mcae(self.fold(x), from_segments=from_segments, frames=self.frames(x))

    def embed(self, x: Float[Tensor, "batch L *bodies K d"]) -> Float[Tensor, "batch features"]:
        """What the motions are."""
        return self.join(self.mcae.embed(self.fold(x), frames=self.frames(x)), len(x))

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
    return sum(p.numel() for module in modules for p in module.parameters())


def _random_lines(N: int, l: int, d: int) -> Float[Tensor, "N l d1"]:
    """The released code's start: a point near the origin moved l - 1 times by x > k x + b."""
    point = torch.empty(N, d).uniform_(-0.5 / l, 0.5 / l)
    k = 2 * torch.empty(N, 1).uniform_(-1 / l, 1 / l).sigmoid()
    b = torch.empty(N, d).uniform_(-1 / l, 1 / l)
    line = [point]
    for _ in range(l - 1):
        line.append(k * line[-1] + b)
    return F.pad(torch.stack(line, 1), (1, 0))


def _snippet_capsules(
    A: Float[Tensor, "N d1 d S n"], mu: Float[Tensor, "N S n"]
) -> SnippetCapsules:
    return SnippetCapsules(A.permute(4, 3, 0, 2, 1), mu.permute(2, 1, 0))


def _place(frames: Frames | None) -> Float[Tensor, "features S n"] | None:
    return None if frames is None else frames.place.permute(2, 1, 0)


def _batch_first(x: Float[Tensor, "l d S n"]) -> Float[Tensor, "n L d"]:
    return x.permute(3, 2, 0, 1).flatten(1, 2)
