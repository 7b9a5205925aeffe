"""Outputs of a sentence as a prefix tree, so that one decoder pass reads shared prefixes once.

a b c        START - a - b - c - END        A node reads a token and attends to itself and its ancestors; its position
a b                      |   - END          is its depth. Its edges are the tokens that follow it.
a d                      - d - END
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from qkv.layers.attention.context import AttentionContext
from qkv.models.transformer.model import Transformer
from qkv.text.special import SPECIAL


@dataclass(frozen=True)
class PrefixTrees:
    """A tree for each sentence of a batch; the first node of each is START."""

    tokens: Tensor
    """[B, N], padding behind."""
    depths: Tensor
    """[B, N]"""
    seen: Tensor
    """[B, N, N], whether the second node is on the path from START to the first one, which sees itself, too."""
    above: Tensor
    """[E], the node that an edge of any of the trees leaves, counted over all of them: sentence · N + node."""
    following: Tensor
    """[E], the token of each edge, END among them."""
    paths: list[list[list[int]]]
    """For each output of each sentence its edges."""

    def decode(self, model: Transformer, memory: Tensor, src_keep: Tensor) -> Tensor:
        """The vectors [E, D] behind the tokens of the edges."""
        src_pos = torch.arange(memory.shape[1], device=memory.device)
        context = AttentionContext(
            self.depths, self.depths, lambda q_pos, k_pos: self.seen, q_keep=self.tokens != SPECIAL.pad
        )
        embedded = model.tgt_embedder(self.tokens, self.depths)
        decoded: Tensor = model.decoder(
            embedded, context, memory, AttentionContext(self.depths, src_pos, keep=src_keep)
        )
        return decoded.flatten(0, 1)[self.above]


def prefix_trees(outputs: Sequence[Sequence[Sequence[int]]], device: torch.device) -> PrefixTrees:
    """Of each sentence's outputs, which are given without END."""
    trees = [_Tree() for _ in outputs]
    ends = [[tree.add([*output, SPECIAL.eos]) for output in own] for tree, own in zip(trees, outputs, strict=True)]
    nodes = max(len(tree.tokens) for tree in trees)
    tokens = np.full((len(trees), nodes), SPECIAL.pad)
    depths = np.zeros((len(trees), nodes), dtype=np.int64)
    # What pads sees itself: nobody looks there, and no row of weights is empty.
    seen = np.repeat(np.eye(nodes, dtype=bool)[None], len(trees), axis=0)
    above: list[int] = []
    following: list[int] = []
    paths = []
    for number, (tree, own) in enumerate(zip(trees, ends, strict=True)):
        tokens[number, : len(tree.tokens)], depths[number, : len(tree.tokens)] = tree.tokens, tree.depths
        for node, parent in enumerate(tree.parents[1:], start=1):
            seen[number, node] |= seen[number, parent]
        paths.append([[len(above) + edge for edge in path] for path in own])
        above += [number * nodes + node for node, _ in tree.edges]
        following += [token for _, token in tree.edges]
    arrays = [torch.from_numpy(array).to(device) for array in (tokens, depths, seen)]
    lists = [torch.tensor(numbers, dtype=torch.long, device=device) for numbers in (above, following)]
    return PrefixTrees(arrays[0], arrays[1], arrays[2], lists[0], lists[1], paths)


class _Tree:
    """Of one sentence."""

    def __init__(self) -> None:
        self.tokens = [SPECIAL.bos]
        self.depths = [0]
        self.parents = [0]
        self.edges: dict[tuple[int, int], int] = {}
        """(node, token that follows) -> number of the edge."""
        self.below: dict[int, int] = {}
        """Edge -> the node that it leads to."""

    def add(self, output: Sequence[int]) -> list[int]:
        """Its edges, those that were there already among them. END leads nowhere."""
        node, path = 0, []
        for token in output:
            edge = self.edges.setdefault((node, token), len(self.edges))
            path.append(edge)
            if edge not in self.below and token != SPECIAL.eos:
                self.below[edge] = len(self.tokens)
                self.tokens.append(token)
                self.depths.append(self.depths[node] + 1)
                self.parents.append(node)
            node = self.below.get(edge, node)
        return path
