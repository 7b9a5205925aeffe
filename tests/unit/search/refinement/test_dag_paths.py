"""Ways through a graph, against all of them; and what a model of the kind dag says by them."""

import math
from itertools import chain, combinations, pairwise
from typing import Any

import numpy as np
import pytest
import torch

from qkv.functional.parallel.dag import transitions
from qkv.models.parallel.base import open_canvas
from qkv.search.refinement.dag import dag_path_of_length, greedy_path, lookahead_path, score_of, viterbi_path
from qkv.text import SPECIAL
from qkv.text.special import NEVER_OUTPUT
from tests.support.parallel import decode, parallel_model

GREEDY, AHEAD = [1, 3], [2, 3]


def graph(vertices: int, seed: int = 0) -> tuple[Any, Any]:
    torch.manual_seed(seed)
    links = transitions(2 * torch.randn(vertices, vertices, dtype=torch.float64))
    return -torch.rand(vertices, dtype=torch.float64).numpy(), links.numpy()


def scored(path: tuple[int, ...], said: Any, links: Any) -> float:
    stops = [0, *path, len(said) - 1]
    return math.fsum(links[u, v] for u, v in pairwise(stops)) + math.fsum(said[v] for v in path)


@pytest.mark.parametrize("vertices", [2, 3, 5, 8])
def test_the_best_of_all_ways(vertices: int) -> None:
    said, links = graph(vertices, vertices)
    between = range(1, vertices - 1)
    by_count = [list(combinations(between, count)) for count in range(vertices - 1)]
    for count, paths in enumerate(by_count):
        wanted = max(paths, key=lambda path: scored(path, said, links))
        found = dag_path_of_length(said, links, count)
        assert found == list(wanted)
        tokens, score = score_of(found, said, links)
        assert score == pytest.approx(scored(wanted, said, links))
        assert len(tokens) == count
    best = max(chain(*by_count), key=lambda path: scored(path, said, links) / (len(path) + 1))
    assert viterbi_path(said, links) == list(best)


def test_looking_ahead_sees_the_token_behind_a_link() -> None:
    """Vertex 1 has the better link and the worse token; the last vertex says nothing, so its token costs nothing."""
    with np.errstate(divide="ignore"):
        links = np.log(np.array([[0, 0.6, 0.4, 0, 0], [0, 0, 0.1, 0.9, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1], [0] * 5]))
    said = np.log(np.array([1e-9, 0.5, 0.9, 0.9, 1e-9]))
    assert greedy_path(said, links) == GREEDY
    assert lookahead_path(said, links) == AHEAD
    assert greedy_path(said[:2], links[:2, :2]) == []


def test_the_ways_of_a_model_are_those_of_its_one_pass() -> None:
    model = parallel_model("dag", seed=4)
    src, keep = torch.tensor([[7, 8, 9, SPECIAL.eos]]), torch.ones(1, 4, dtype=torch.bool)
    with torch.no_grad():
        model.head.weight *= 10
        canvas = open_canvas(model.canvas_lengths(keep.sum(dim=1)))
        decoded = model.states(src, keep, canvas)
        log_probs = model.head.log_probs(decoded, never=(*NEVER_OUTPUT, SPECIAL.eos))[0]
        links = model.transitions(decoded, torch.tensor([18]))[0].double().numpy()
    best, tokens = (part.numpy() for part in log_probs.max(dim=1))
    said = best.astype(np.float64)
    outputs = set()
    for name, walk in (("greedy", greedy_path), ("lookahead", lookahead_path), ("best", viterbi_path)):
        path = walk(said, links)
        (found,) = decode(model, [[7, 8, 9]], path=name)[0]
        assert found.tokens == [int(tokens[vertex]) for vertex in path]
        assert found.token_scores == pytest.approx(score_of(path, said, links)[0], abs=1e-5)
        assert found.score == pytest.approx(score_of(path, said, links)[1], abs=1e-5)
        outputs.add(tuple(found.tokens))
    assert len(outputs) > 1
    assert decode(model, [[7, 8, 9]])[0] == decode(model, [[7, 8, 9]], path="lookahead")[0]
    (long,) = decode(model, [[7, 8, 9]], length=16)[0]
    assert long.tokens == tokens[1:-1].tolist()


def test_the_ends_of_a_graph_know_what_they_are() -> None:
    """They read the start symbol and END, whatever a pass has written there."""
    model = parallel_model("dag")
    source = model.read(torch.tensor([[7, 8, SPECIAL.eos]] * 2), torch.tensor([[True] * 3, [True, True, False]]))
    canvas = open_canvas(torch.tensor([8, 6]))
    known = canvas.clone()
    known[0, 0], known[0, 7], known[1, 5] = 9, 10, 11
    with torch.no_grad():
        assert torch.equal(model.fill(known, source), model.fill(canvas, source))
        known[1, 4] = 11
        assert not torch.allclose(model.fill(known, source)[1, :6], model.fill(canvas, source)[1, :6])
