"""Outputs that are read as a tree are read as one by one, for every kind of part."""

from typing import Any

import pytest
import torch

from qkv.core.errors import UsageError
from qkv.inference.whole import fused
from qkv.search.refinement.prefix_trees import prefix_trees
from qkv.search.refinement.rescoring import Rescorer
from qkv.text.special import SPECIAL
from tests.support.attentions import CAUSAL, FOLLOWING, FULL, everywhere
from tests.support.parts import CAUSAL_PARTS, sources
from tests.support.small import small_model

ATTENTIONS = [
    *({"decoder_attention": setting} for setting in CAUSAL),
    *({"cross_attention": setting} for setting in FULL),
]
OUTPUTS = [
    [[7, 8, 9, 5, 6], [7, 8, 9, 6], [7, 8], [], [8, 7, 9, 5]],
    [[5, 5, 5], [5, 5]],
    [[9, 8, 7, 6, 5, 9, 8, 7]],
]


def test_what_is_shared_is_there_once() -> None:
    tree = prefix_trees([OUTPUTS[0]], torch.device("cpu"))
    assert tree.tokens.tolist() == [[SPECIAL.bos, 7, 8, 9, 5, 6, 6, 8, 7, 9, 5]]
    assert tree.depths.tolist() == [[0, 1, 2, 3, 4, 5, 4, 1, 2, 3, 4]]
    assert tree.seen[0, 6].nonzero().flatten().tolist() == [0, 1, 2, 3, 6]
    said = [[int(tree.following[edge]) for edge in path] for path in tree.paths[0]]
    assert said == [[*output, SPECIAL.eos] for output in OUTPUTS[0]]
    assert len(tree.following) == 10 + 5


CARRYING = [everywhere(setting) for setting in FOLLOWING if setting["kind"] != "wait_k"]


@pytest.mark.parametrize("parts", [*(each for each in CAUSAL_PARTS if each not in CARRYING), *ATTENTIONS], ids=str)
def test_a_tree_equals_its_outputs_one_by_one(parts: dict[str, Any]) -> None:
    model = small_model(**parts).double().eval()
    src, keep = sources([7, 3, 0])
    trees, fast = prefix_trees(OUTPUTS, src.device), fused(model)
    with torch.inference_mode():
        together = trees.decode(model, model.encode(src, keep), keep)
        twin = trees.decode(fast, fast.encode(src, keep), keep)
        torch.testing.assert_close(twin, together, atol=1e-10, rtol=0)
        for row, (own, paths) in enumerate(zip(OUTPUTS, trees.paths, strict=True)):
            # Alone, without the padding of the others.
            source, real = src[row : row + 1, keep[row]], keep[row : row + 1, keep[row]]
            for output, path in zip(own, paths, strict=True):
                alone = model.states(source, real, torch.tensor([[SPECIAL.bos, *output]]))[0]
                torch.testing.assert_close(together[path], alone, atol=1e-10, rtol=0)


@pytest.mark.parametrize("parts", CARRYING, ids=str)
def test_a_model_that_reads_one_output_after_the_other_does_not_rescore(parts: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="rescore with a model whose cross_attention is full"):
        Rescorer(small_model(**parts))
