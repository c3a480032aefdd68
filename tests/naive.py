"""The model and its losses as loops written straight from the equations, one number at a time where
that is bearable. Slow on purpose; reads the parameters of an MCAE and none of its code."""

import math
from types import SimpleNamespace

import torch


def sigmoid(v):
    return 1 / (1 + torch.exp(-v))


def clamp(v, limit):
    return torch.minimum(torch.maximum(v, torch.full_like(v, -limit)), torch.full_like(v, limit))


def rotation(theta):
    """(cos, -sin; sin, cos), or the exponential of the cross product's matrix."""
    if len(theta) == 1:
        c, s = torch.cos(theta[0]), torch.sin(theta[0])
        return torch.stack([torch.stack([c, -s]), torch.stack([s, c])])
    x, y, z = theta
    o = torch.zeros_like(x)
    rows = [torch.stack(r) for r in ([o, -z, y], [z, o, -x], [-y, x, o])]
    return torch.linalg.matrix_exp(torch.stack(rows))


def squash(T, limit):
    rows = []
    for i in range(2):
        row = [2 * sigmoid(T[i, j]) if i == j else clamp(T[i, j], limit) for j in range(3)]
        rows.append(torch.stack(row))
    return torch.stack(rows)


def transformation(p, config):
    """(d + 1, d + 1) from s, t, theta."""
    d, limit = config.dimension, config.translation_limit
    s, t, theta = p[0], p[1 : 1 + d], p[1 + d :]
    if config.transformation == "squashed":
        T = torch.cat([2 * sigmoid(s) * rotation(2 * math.pi * theta), t[:, None]], 1)
        return homogeneous(squash(T, limit))
    return homogeneous(torch.cat([sigmoid(s) * rotation(theta), clamp(t, limit)[:, None]], 1))


def homogeneous(T):
    last = torch.zeros(1, T.shape[1], dtype=T.dtype)
    last[0, -1] = 1
    return torch.cat([T, last])


def conv_layer(x, layer):
    """x[sample][channel][time]: convolution, batch normalisation with the batch's own moments,
    leaky ReLU."""
    kernel = layer.weight  # (out, in, 4)
    n, c, time = x.shape
    out = []
    for i in range(n):
        padded = torch.cat([torch.zeros(c, 1), x[i], torch.zeros(c, 1)], 1)
        windows = [(kernel * padded[:, 2 * t : 2 * t + 4]).sum((1, 2)) for t in range(time // 2)]
        out.append(torch.stack(windows, 1))
    y = torch.stack(out)
    normed = []
    for k in range(y.shape[1]):
        values = y[:, k]
        mean = values.sum() / values.numel()
        variance = ((values - mean) ** 2).sum() / values.numel()
        scaled = (values - mean) / torch.sqrt(variance + layer.norm.eps)
        normed.append(scaled * layer.norm.weight[k] + layer.norm.bias[k])
    y = torch.stack(normed, 1)
    return torch.where(y > 0, y, 0.01 * y)


def lstm_direction(lstm, direction, inputs):
    """Last hidden state of one direction over a list of inputs (data and constant part whole)."""
    H = lstm.weight_hidden.shape[-1]
    W = torch.cat([lstm.weight_input[direction], lstm.weight_constant[direction]], 1)
    h = c = torch.zeros(H)
    for v in inputs:
        gates = W @ v + lstm.bias_input[direction]
        gates = gates + lstm.weight_hidden[direction] @ h + lstm.bias_hidden[direction]
        i, f, o = (sigmoid(gates[k * H : (k + 1) * H]) for k in range(3))
        g = torch.tanh(gates[3 * H :])
        c = f * c + i * g
        h = o * torch.tanh(c)
    return h


def mixed(weights, terms, config):
    """sum_i w_i term_i, divided by sum_i w_i where mixtures are normalised."""
    total = sum(w * term for w, term in zip(weights, terms, strict=True))
    return total / sum(weights) if config.normalised_mixtures else total


def decode_snippet(A, mu, templates, config):
    """x_hat_j of one snippet, j = 1 ... l: Eq. 1 and 2."""
    x_hat = []
    for j in range(config.snippet_length):
        t_hat = []
        for i in range(config.num_snippet_capsules):
            t = torch.cat([templates[i, j, 1:], torch.ones(1)])
            t_hat.append((A[i] @ t)[:-1])  # Eq. 1
        x_hat.append(mixed(mu, t_hat, config))  # Eq. 2
    return torch.stack(x_hat)


def explain(model, x):
    """All samples, in training mode without activation noise."""
    config = model.config
    l, S, N = config.snippet_length, config.num_snippets, config.num_snippet_capsules
    d, M = config.dimension, config.num_segment_capsules
    features = torch.stack([sample[s * l : (s + 1) * l].T for sample in x for s in range(S)])
    for layer in model.snippet.convs:
        features = conv_layer(features, layer)
    features = features.sum(2) / features.shape[2]
    snippets = []
    for f in features:
        raw = model.snippet.weight @ f + model.snippet.bias[:, 0]
        capsules = raw.view(N, -1)
        A = [transformation(p[1:], config) for p in capsules]
        snippets.append((A, [sigmoid(p[0]) for p in capsules]))
    out = []
    for n in range(len(x)):
        mine = snippets[n * S : (n + 1) * S]
        templates = model.snippet.templates
        x_hat = torch.cat([decode_snippet(A, mu, templates, config) for A, mu in mine])
        result = SimpleNamespace(A=[A for A, _ in mine], mu=[mu for _, mu in mine], x_hat=x_hat)
        out.append(result)
        if M:
            segments(model, result, d, S, N, M)
    return out


def segments(model, result, d, S, N, M):
    """Eq. 3 and 4 of one sample."""
    config, seg, templates = model.config, model.segment, model.snippet.templates
    inputs = []
    for A, mu in zip(result.A, result.mu, strict=True):
        # In the layout of weight_input: all mu, then A capsule by capsule, column by column.
        v = [
            *mu,
            *(A[i][row, column] for i in range(N) for column in range(d + 1) for row in range(d)),
        ]
        inputs.append(torch.cat([torch.stack(v), templates.detach().flatten()]))
    h = [lstm_direction(seg.lstm, 0, inputs), lstm_direction(seg.lstm, 1, inputs[::-1])]
    h = torch.relu(torch.cat(h))
    heads = seg.heads
    hidden = torch.relu(heads.hidden_weight @ h + heads.hidden_bias[:, 0]).view(M, -1)
    B, nu = [], []
    for k in range(M):
        raw = heads.weight[k] @ hidden[k] + heads.bias[k, :, 0]  # Eq. 3
        nu.append(sigmoid(raw[0]))
        if config.transformation == "squashed":
            B.append(homogeneous(squash(raw[1:].view(2, 3), config.translation_limit)))
        else:
            B.append(transformation(raw[1:], config))
    result.B, result.nu = B, torch.stack(nu)
    result.A_hat, result.mu_hat = [], []
    for i in range(S):
        A_hat, mu_hat = [], []
        for j in range(N):
            P = [transformation(seg.P[k, 1:, i, j], config) for k in range(M)]
            alpha = [sigmoid(seg.P[k, 0, i, j]) for k in range(M)]
            P_hat = [B[k] @ P[k] for k in range(M)]  # Eq. 4
            A = mixed(nu, P_hat, config)
            if config.transformation == "squashed":
                A = homogeneous(squash(A[:2], config.translation_limit))
            A_hat.append(A)
            mu_hat.append(mixed(nu, alpha, config))
        result.A_hat.append(A_hat)
        result.mu_hat.append(mu_hat)
    second = [
        decode_snippet(A, mu, templates.detach(), config)
        for A, mu in zip(result.A_hat, result.mu_hat, strict=True)
    ]
    result.x_hat_from_segments = torch.cat(second)


def losses(model, x, weights):
    """Eq. 5 to 9 of two views: the first half of x, and the second."""
    config = model.config
    samples = explain(model, x)
    n, d = len(x), config.dimension
    names = ("snippet", "segment", "contrast", "smoothness", "sparsity")
    terms = {name: torch.zeros(()) for name in names}
    for sample, target in zip(samples, x, strict=True):
        for i in range(config.length):
            terms["snippet"] = (
                terms["snippet"] + ((sample.x_hat[i] - target[i]) ** 2).sum() / n
            )  # Eq. 5
        for i in range(config.num_snippets):
            for j in range(config.num_snippet_capsules):
                apart = (sample.A_hat[i][j] - sample.A[i][j])[:d]
                terms["segment"] = terms["segment"] + (apart**2).sum() / n  # Eq. 6
                terms["segment"] = (
                    terms["segment"] + (sample.mu_hat[i][j] - sample.mu[i][j]) ** 2 / n
                )
        reconstructions, steps = [sample.x_hat], range(1, config.length)
        if weights.smoothness_at == "snippet borders":
            reconstructions.append(sample.x_hat_from_segments)
            steps = range(config.snippet_length, config.length, config.snippet_length)
        for x_hat in reconstructions:
            for i in steps:
                terms["smoothness"] = (
                    terms["smoothness"] + ((x_hat[i] - x_hat[i - 1]) ** 2).sum() / n
                )  # Eq. 8
        terms["sparsity"] = terms["sparsity"] + (sample.nu**2).sum() / n  # Eq. 8
    nu = torch.stack([sample.nu for sample in samples])
    if weights.centred:
        nu = nu - nu.sum(0) / n
    first, second = nu[: n // 2], nu[n // 2 :]
    for i in range(n // 2):
        closeness = [
            torch.exp(cosine(first[i], second[j]) / weights.temperature) for j in range(n // 2)
        ]
        denominator = sum(
            c for j, c in enumerate(closeness) if weights.positive_in_denominator or j != i
        )
        terms["contrast"] = terms["contrast"] + -torch.log(closeness[i] / denominator) / (
            n // 2
        )  # Eq. 7
    total = sum(getattr(weights, name) * value for name, value in terms.items())  # Eq. 9
    return terms, total


def cosine(a, b):
    return (a * b).sum() / (torch.sqrt((a * a).sum()) * torch.sqrt((b * b).sum()))
