"""The norm of the gradient of each layer."""

import re
from collections import defaultdict

import torch
from torch import nn

LAYER = re.compile(r".*?layers\.\d+(?=\.)")


def layer_of(parameter: str) -> str:
    """`encoder.layers.0` for `encoder.layers.0.attention.query.weight`; outside of layers, the name's first part."""
    found = LAYER.match(parameter)
    return found[0] if found else parameter.split(".")[0]


def gradient_norms(model: nn.Module) -> dict[str, float]:
    """‖g‖ of the parameters of each layer, in the order of the model; their squares sum to that of the whole."""
    groups: dict[str, list[torch.Tensor]] = defaultdict(list)
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            groups[layer_of(name)].append(parameter.grad)
    norms = [torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads))) for grads in groups.values()]
    return dict(zip(groups, torch.stack(norms).tolist() if norms else [], strict=True))
