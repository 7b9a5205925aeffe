"""The tensors of a batch."""

import dataclasses

import pytest
import torch

from qkv.data.batch import Batch, collate
from qkv.text.special import SpecialIds

SPECIAL = SpecialIds()


def example() -> Batch:
    return collate([[10, 11, 12], [13], [14, 15]], [[20], [21, 22], []], SPECIAL, SPECIAL, [7, 3, 5])


def test_tensors() -> None:
    batch = example()
    assert batch.src.tolist() == [[10, 11, 12, 3], [13, 3, 0, 0], [14, 15, 3, 0]]
    assert batch.src_keep.int().tolist() == [[1, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 0]]
    assert batch.tgt_in.tolist() == [[2, 20, 0], [2, 21, 22], [2, 0, 0]]
    assert batch.tgt_out.tolist() == [[20, 3, 0], [21, 22, 3], [3, 0, 0]]
    assert batch.tgt_weight.tolist() == [[1, 1, 0], [1, 1, 1], [1, 0, 0]]
    assert (batch.src.dtype, batch.src_keep.dtype, batch.tgt_weight.dtype) == (torch.int64, torch.bool, torch.float32)
    assert batch.examples == [7, 3, 5]


def test_special_ids_of_each_side() -> None:
    batch = collate([[9]], [[9], [9, 9]][:1], SpecialIds(eos=5), SpecialIds(bos=6, eos=7), [0])
    assert (batch.src.tolist(), batch.tgt_in.tolist(), batch.tgt_out.tolist()) == ([[9, 5]], [[6, 9]], [[9, 7]])


def test_counts() -> None:
    batch = example()
    assert len(batch) == 3
    assert batch.num_tgt_tokens == 6
    assert batch.padding == pytest.approx(1 - 15 / 21)


def test_split_keeps_every_row() -> None:
    batch = example()
    batch = dataclasses.replace(batch, alignment=torch.rand(3, batch.tgt_out.shape[1], batch.src.shape[1]))
    batch = dataclasses.replace(batch, found=batch.counted)
    first, second = batch.split()
    assert (len(first), len(second)) == (2, 1)
    assert first.num_tgt_tokens + second.num_tgt_tokens == batch.num_tgt_tokens
    for field in dataclasses.fields(Batch):
        whole, halves = getattr(batch, field.name), [getattr(half, field.name) for half in (first, second)]
        if field.name == "examples":
            assert halves[0] + halves[1] == whole
        elif field.name == "found":
            assert halves == [None, None], "they are found anew"
        else:
            assert torch.equal(torch.cat(halves), whole)


def test_one_row_cannot_be_split() -> None:
    with pytest.raises(ValueError, match="cannot be split"):
        example().split()[1].split()


def test_no_rows() -> None:
    batch = collate([], [], SPECIAL, SPECIAL, [])
    assert batch.src.shape == batch.tgt_in.shape == (0, 1)
    assert (len(batch), batch.num_tgt_tokens) == (0, 0)


def test_to_device() -> None:
    moved = example().to("meta")
    assert all(getattr(moved, name).is_meta for name in ("src", "src_keep", "tgt_in", "tgt_out", "tgt_weight"))
    assert moved.examples == example().examples
