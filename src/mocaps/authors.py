"""The authors' released weights, read into the preset `authors`.

Their arrays come as an .npz under the names of their code; ours differ in layout alone: the
LSTM's two directions together, its gates in the order input, forget, output, cell, its input sorted
into data (mu of all capsules, then A column by column) and templates; parameters before snippets.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from mocaps.config import ModelConfig, preset
from mocaps.errors import InputError
from mocaps.model import MCAE

_SNIPPET, _SEGMENT = "mcae.0.sni_enc.", "mcae.0.seg_enc."


def load_authors(path: Path | str) -> tuple[MCAE, nn.Linear]:
    """Their model, and the linear classifier on its nu."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: torch.from_numpy(archive[name]) for name in archive.files}
    except FileNotFoundError:
        raise InputError(f"expected the authors' weights at {path}, found no such file") from None
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"expected an .npz file of arrays at {path}, got: {error}") from None
    model = MCAE(preset("authors").model)
    try:
        model.load_state_dict(state(arrays, model.config))
        classifier = nn.Linear(model.config.num_features, len(arrays["sk_cls.bias"]))
        classifier.load_state_dict({k: arrays[f"sk_cls.{k}"] for k in ("weight", "bias")})
    except KeyError as error:
        raise InputError(f"expected the array {error} among the authors' weights {path}") from None
    return model.eval(), classifier


def state(theirs: Mapping[str, Tensor], config: ModelConfig) -> dict[str, Tensor]:
    """Their arrays under our names, in our layout."""
    ours = {
        "snippet.weight": theirs[_SNIPPET + "mu_gen.weight"][..., 0],
        "snippet.bias": theirs[_SNIPPET + "mu_gen.bias"][:, None],
        "snippet.templates": theirs["mcae.0.sni_dec.templates"],
        "segment.heads.hidden_weight": theirs[_SEGMENT + "seg_param_gen_1.weight"],
        "segment.heads.hidden_bias": theirs[_SEGMENT + "seg_param_gen_1.bias"][:, None],
        "segment.heads.weight": theirs[_SEGMENT + "seg_param_gen_2.weight"],
        "segment.heads.bias": theirs[_SEGMENT + "seg_param_gen_2.bias"][..., None],
        "segment.P": theirs["mcae.0.seg_dec.seg_sni_rel"].permute(1, 3, 0, 2),
    }
    for layer in range(3):
        conv = f"{_SNIPPET}sni_feat_extactor.{3 * layer}."
        norm = f"{_SNIPPET}sni_feat_extactor.{3 * layer + 1}."
        ours[f"snippet.convs.{layer}.weight"] = theirs[conv + "weight"]
        for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
            ours[f"snippet.convs.{layer}.norm.{name}"] = theirs[norm + name]
    for name, array in _lstm(theirs, config).items():
        ours[f"segment.lstm.{name}"] = array
    return {name: array.contiguous() for name, array in ours.items()}


def _lstm(theirs: Mapping[str, Tensor], config: ModelConfig) -> dict[str, Tensor]:
    def both(name: str) -> Tensor:
        prefix = _SEGMENT + "sni_seq_encoder."
        pair = torch.stack([theirs[prefix + name], theirs[prefix + name + "_reverse"]])
        i, f, g, o = pair.chunk(4, 1)
        return torch.cat([i, f, o, g], 1)

    N, l, d = config.num_snippet_capsules, config.snippet_length, config.dimension
    # Theirs, capsule after capsule: mu, A row by row, the template step by step.
    columns = both("weight_ih_l0").unflatten(-1, (N, -1))
    mu, A, template = columns.split([1, d * (d + 1), l * (d + 1)], -1)
    A = A.unflatten(-1, (d, d + 1)).transpose(-1, -2)
    return {
        "weight_input": torch.cat([mu.flatten(2), A.flatten(2)], -1),
        "weight_constant": template.flatten(2),
        "weight_hidden": both("weight_hh_l0"),
        "bias_input": both("bias_ih_l0"),
        "bias_hidden": both("bias_hh_l0"),
    }
