"""Positions drawn at random in training, so that no far position is unknown when a longer input comes."""

import torch
from jaxtyping import Int
from torch import Tensor


def shifted_positions(rows: int, length: int, most: int) -> Int[Tensor, "{rows} {length}"]:
    """p + o with one o ~ U{0 ... most} for each sentence (Kiyono et al. 2021)."""
    return torch.arange(length) + torch.randint(most + 1, (rows, 1))


def randomised_positions(rows: int, length: int, room: int) -> Int[Tensor, "{rows} {length}"]:
    """`length` of the positions 0 ... room - 1 for each sentence, none twice, in rising order (Ruoss et al. 2023)."""
    if length > room:
        raise ValueError(f"{length} tokens do not fit {room} positions; raise model.position_offsets.room")
    return torch.rand(rows, room).topk(length, sorted=False).indices.sort().values
