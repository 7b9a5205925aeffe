"""The one loop that fills canvases, and what is read off them."""

import math
from itertools import pairwise, product
from typing import Any

import pytest
import torch
from torch import Tensor

from qkv.core.errors import ConfigError, QkvError, UsageError
from qkv.engines.base import DecodeRequest
from qkv.engines.torch_engine import TorchEngine
from qkv.functional.parallel.ctc import collapse
from qkv.models.parallel.base import EncodedSource, open_canvas
from qkv.search.base import Constraints, SearchConfig
from qkv.search.beam import BeamConfig
from qkv.search.greedy import GreedyConfig
from qkv.search.models import ModelSteps
from qkv.search.refinement.canvas import Pass, least_sure, refine
from qkv.search.refinement.ctc import CtcReaderConfig, ctc_path_of_length, prefix_beam_search, runs
from qkv.search.refinement.dag import DagReaderConfig
from qkv.search.refinement.search import RefineConfig
from qkv.text import SPECIAL
from qkv.text.special import NEVER_OUTPUT
from tests.support.parallel import PARALLEL, decode, know, parallel_model, refining
from tests.support.small import small_model

BLANK = 2


def sources(*lengths: int) -> EncodedSource:
    rows = torch.full((len(lengths), max(lengths)), 7)
    keep = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return EncodedSource(rows, keep, torch.zeros(*rows.shape, 16))


def history(model: Any, lengths: list[int], passes: int) -> list[Pass]:
    found: list[Pass] = []
    refine(model, sources(*[3] * len(lengths)), torch.tensor(lengths), passes, NEVER_OUTPUT, found.append)
    return found


@pytest.mark.parametrize("passes", [1, 2, 4, 10])
@pytest.mark.parametrize("kind", ["mask_predict", "nat"])
def test_with_the_true_length_and_an_oracle_the_target_comes_out(kind: str, passes: int) -> None:
    model, target = parallel_model(kind), torch.tensor([[5, 9, 6, 6, 11]])
    know(model, target)
    (best,) = decode(model, [[7, 8]], passes=passes, length=5)[0]
    assert best.tokens == target[0].tolist()
    assert best.ended
    assert best.score == pytest.approx(0.0, abs=1e-6)


def test_one_pass_is_the_argmax_of_the_plain_model() -> None:
    model = parallel_model("nat", seed=3)
    src, keep = torch.tensor([[7, 8, 9, SPECIAL.eos]]), torch.ones(1, 4, dtype=torch.bool)
    canvas = open_canvas(torch.tensor([6]))
    log_probs = model.head.log_probs(model.states(src, keep, canvas), never=(*NEVER_OUTPUT, SPECIAL.eos))
    (best,) = decode(model, [[7, 8, 9]], passes=1, length=6)[0]
    assert best.tokens == log_probs.argmax(dim=-1)[0].tolist()
    assert best.token_scores == pytest.approx(log_probs.amax(dim=-1)[0].tolist(), abs=1e-5)
    assert best.passes == 1


def test_each_pass_opens_the_least_sure_and_keeps_the_rest() -> None:
    """10 tokens and 4 passes: 7, 5 and 2 are open again; nothing after the last. A row of its own length each."""
    model = parallel_model("mask_predict")
    answers = torch.randint(5, 15, (2, 10), generator=torch.Generator().manual_seed(1))
    sure = 1 + torch.rand(4, 2, 10, generator=torch.Generator().manual_seed(2))
    seen = know(model, answers, sure)
    found = history(model, [10, 4], 4)
    assert [(canvas == SPECIAL.mask).sum(dim=1).tolist() for canvas in seen] == [[10, 4], [7, 3], [5, 2], [2, 1]]
    for before, canvas in zip(found, seen[1:], strict=False):
        for row, length in ((0, 10), (1, 4)):
            opened = canvas[row, :length] == SPECIAL.mask
            assert before.scores[row, :length][opened].max() <= before.scores[row, :length][~opened].min()
            assert torch.equal(canvas[row, :length][~opened], before.tokens[row, :length][~opened])
            assert (canvas[row, length:] == SPECIAL.pad).all()
    for earlier, later in pairwise(found):
        assert torch.equal(earlier.tokens[~later.fresh], later.tokens[~later.fresh])
        assert torch.equal(earlier.scores[~later.fresh], later.scores[~later.fresh])
    assert not (found[-1].tokens == SPECIAL.mask).any()


def test_it_stops_when_nothing_is_open_any_more() -> None:
    model = parallel_model("mask_predict")
    seen = know(model, torch.tensor([[5, 6]]))
    assert len(history(model, [2], 10)) == len(seen) == 6  # 10 passes, but floor(2 (10 - 6) / 10) = 0


def test_the_least_sure() -> None:
    scores, keep = torch.tensor([[-1.0, -3.0, -3.0, -9.0]]), torch.tensor([[True, True, True, False]])
    assert least_sure(scores, keep, torch.tensor([2])).tolist() == [[False, True, True, False]]
    assert least_sure(scores, keep, torch.tensor([1])).tolist() == [[False, True, False, False]]


def test_lengths_compete_by_their_mean() -> None:
    model = parallel_model("nat", seed=5)
    each = decode(model, [[7, 8, 9, 10]], nbest=4, length_beam=4, max_extra=999)[0]
    lengths = [len(one.tokens) for one in each]
    assert len(set(lengths)) == 4
    assert [one.score for one in each] == sorted((one.score for one in each), reverse=True)
    for one in each:
        (alone,) = decode(model, [[7, 8, 9, 10]], length=len(one.tokens))[0]
        assert alone.tokens == one.tokens
        assert one.score == pytest.approx(math.fsum(alone.token_scores) / len(one.tokens), abs=1e-5)
    (plain,) = decode(model, [[7, 8, 9, 10]], max_extra=999)[0]
    assert len(plain.tokens) in lengths
    short = decode(model, [[7, 8, 9, 10]], nbest=4, length_beam=4, max_length=2)[0]
    assert [len(one.tokens) for one in short] == [2]


def canvas_says(answers: list[int], **search: Any) -> Any:
    model = parallel_model({"kind": "canvas", "factor": 1.0, "extra": 3})
    know(model, torch.tensor([answers]))
    return decode(model, [[7, 8]], **search)[0][0]


def test_a_long_canvas_ends_at_its_first_end() -> None:
    end = SPECIAL.eos
    best = canvas_says([5, 6, end, 7, 8, 9])
    assert (best.tokens, best.ended, len(best.token_scores)) == ([5, 6], True, 3)
    assert canvas_says([5, 6, end, 11, end, 12]) == best
    assert canvas_says([end] * 6).tokens == []
    full = canvas_says([5, 6, 7, 8, 9, 10])
    assert (full.tokens, full.ended) == ([5, 6, 7, 8, 9, 10], False)
    short = canvas_says([5, 6, 7, end, end, end], max_length=2)
    assert (short.tokens, short.ended) == ([5, 6], False)


def test_ctc_collapses_what_it_says() -> None:
    model = parallel_model("ctc")
    model.head.weight = torch.nn.Parameter(torch.zeros(16, 16))
    know(model, torch.tensor([[15, 5, 5, 15, 5, 6, 6, 15]]))
    (best,) = decode(model, [[7, 8, 9]])[0]
    assert (best.tokens, len(best.token_scores), best.ended) == ([5, 5, 6], 3, True)


def steps_of(positions: int) -> tuple[list[dict[int, float]], Tensor]:
    torch.manual_seed(positions)
    table = torch.randn(positions, 3, dtype=torch.float64).log_softmax(dim=-1)
    return [dict(enumerate(row)) for row in table.tolist()], table


@pytest.mark.parametrize("positions", [1, 3, 5])
def test_paths_against_all_paths(positions: int) -> None:
    steps, table = steps_of(positions)
    total: dict[tuple[int, ...], float] = {}
    best: dict[int, tuple[float, list[int]]] = {}
    for path in product(range(3), repeat=positions):
        score = math.fsum(float(table[at, token]) for at, token in enumerate(path))
        output = tuple(collapse(path, BLANK))
        assert output == tuple(path[start] for start, _ in runs(path, BLANK))
        total[output] = total.get(output, 0.0) + math.exp(score)
        best[len(output)] = max(best.get(len(output), (-math.inf, [])), (score, list(path)))
    found = prefix_beam_search(steps, BLANK, 999)
    assert {prefix: pytest.approx(math.exp(score)) for prefix, score in found} == total
    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)
    assert prefix_beam_search(steps, BLANK, 4)[0][0] == max(total, key=total.__getitem__)
    for count in range(positions + 1):
        assert ctc_path_of_length(steps, BLANK, count) == best[count][1]


def test_the_beam_of_ctc_gives_the_best_outputs() -> None:
    model = parallel_model("ctc", seed=2)
    each = decode(model, [[7, 8, 9]], nbest=4, beam=16)[0]
    (greedy,) = decode(model, [[7, 8, 9]])[0]
    assert len({tuple(one.tokens) for one in each}) == 4
    assert [one.score for one in each] == sorted((one.score for one in each), reverse=True)
    assert each[0].score >= greedy.score


def test_a_beam_may_be_wider_than_the_vocabulary() -> None:
    found = decode(parallel_model("ctc", seed=2), [[7, 8, 9]], nbest=99, beam=99)[0]
    assert len({tuple(one.tokens) for one in found}) == len(found) > 16


@pytest.mark.parametrize("penalty", [-9.0, 0.0, 0.3, 9.0])
def test_a_penalty_for_the_blank_is_taken_from_its_logit_everywhere(penalty: float) -> None:
    model = parallel_model({"kind": "ctc", "upsample": 3}, seed=2)
    src = torch.tensor([[7, 8, 9, 5, SPECIAL.eos]])
    read = model.read(src, torch.ones_like(src, dtype=torch.bool))
    canvas = open_canvas(model.canvas_lengths(read.lengths))
    logits = model.head.logits(model.fill(canvas, read), never=(*NEVER_OUTPUT, SPECIAL.eos))[0]
    logits[:, model.blank] -= penalty
    best, path = logits.log_softmax(dim=1).max(dim=1)
    (found,) = decode(model, [[7, 8, 9, 5]], blank_penalty=penalty)[0]
    assert found.tokens == collapse(path.tolist(), model.blank)
    assert found.score == pytest.approx(float(best.detach().sum()), abs=1e-5)
    if penalty:
        (beam,) = decode(model, [[7, 8, 9, 5]], blank_penalty=penalty, beam=10)[0]
        assert beam.score >= found.score - 1e-5


def request_of(search: SearchConfig, **changes: Any) -> DecodeRequest:
    return DecodeRequest(search, changes.pop("nbest", 1), [Constraints(**changes.pop("rules", {}))], **changes)


REFUSED: list[tuple[str, DecodeRequest, str]] = [
    *(
        (kind, request_of(GreedyConfig()), f"of the kind {kind}, so it has no next token: use refine")
        for kind in PARALLEL
    ),
    ("nat", request_of(BeamConfig()), "no next token"),
    ("autoregressive", request_of(RefineConfig()), "autoregressive, so it has no search refine"),
    ("ctc", request_of(RefineConfig(), attention=True), "tells no alignment"),
    ("ctc", request_of(RefineConfig(), rules={"prefix": [5]}), "cannot obey prefix"),
    ("ctc", request_of(RefineConfig(length_beam=2)), "predicts no length"),
    ("nat", request_of(refining(beam=2)), "for models of the kind ctc"),
    ("nat", request_of(RefineConfig(), nbest=2), "1 outputs, not 2"),
    ("ctc", request_of(RefineConfig(length=9)), "9 is outside the canvas"),
    ("canvas", request_of(RefineConfig(length=99)), "99 is outside the canvas"),
    ("dag", request_of(RefineConfig(length=13)), "13 is outside the canvas: a source of 3 tokens has room for 12"),
    ("dag", request_of(RefineConfig(length_beam=2)), "predicts no length"),
    ("dag", request_of(refining(beam=2)), "for models of the kind ctc"),
    ("dag", request_of(refining(blank_penalty=1)), "search.blank_penalty is for models of the kind ctc, not dag"),
    ("ctc", request_of(refining(path="greedy")), "search.path is for models of the kind dag, not ctc"),
]


@pytest.mark.parametrize(("kind", "request_", "words"), REFUSED)
def test_what_makes_no_sense_is_refused_in_one_sentence(kind: str, request_: DecodeRequest, words: str) -> None:
    with pytest.raises(UsageError, match=words) as error:
        TorchEngine([small_model(decoder=kind).eval()]).decode([[7, 8, SPECIAL.eos]], request_)
    assert "\n" not in str(error.value)


def test_models_form_no_ensemble_and_have_no_next_token() -> None:
    model = parallel_model("nat")
    with pytest.raises(UsageError, match="cannot form an ensemble"):
        TorchEngine([model, model]).decode([[7, SPECIAL.eos]], request_of(RefineConfig()))
    with pytest.raises(QkvError, match="no next token"):
        model.decode(torch.tensor([[5]]), torch.zeros(1, 1, 16), torch.ones(1, 1, dtype=torch.bool))
    with pytest.raises(UsageError, match="of the kind nat, so it has no next token: use refine"):
        ModelSteps(model)


@pytest.mark.parametrize(
    "settings",
    [
        {"length": 3, "length_factor": 2.0},
        {"length": 3, "length_beam": 2},
        {"length": 3, "path": "best"},
        {"beam": 2, "passes": 2},
        {"min_length": 1},
        {"no_repeat_ngram": 2},
    ],
)
def test_settings_that_exclude_each_other(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"leave|use"):
        refining(**settings)


@pytest.mark.parametrize(
    ("keys", "reader"),
    [
        ({"beam": 3}, CtcReaderConfig(beam=3)),
        ({"reader": {"kind": "ctc", "beam": 3}, "blank_penalty": 0.5}, CtcReaderConfig(beam=3, blank_penalty=0.5)),
        ({"reader": "ctc", "beam": 3}, CtcReaderConfig(beam=3)),
        ({"path": "best"}, DagReaderConfig(path="best")),
        ({"beam": 1, "way": None, "blank_penalty": 0.0}, None),
        ({"beam": 4, "way": None, "blank_penalty": 0.0}, CtcReaderConfig(beam=4)),
    ],
    ids=str,
)
def test_keys_of_a_reader_may_stand_beside_those_of_the_search(keys: dict[str, Any], reader: Any) -> None:
    """Also as earlier versions wrote them: the keys of all kinds, most of them with their defaults."""
    assert refining(**keys) == RefineConfig(reader=reader)


def test_the_old_name_of_a_key_of_a_reader_warns() -> None:
    with pytest.warns(FutureWarning, match="the key way is now called path"):
        assert refining(way="best") == RefineConfig(reader=DagReaderConfig(path="best"))


def test_keys_of_two_readers_are_refused() -> None:
    with pytest.raises(ConfigError, match="path"):
        refining(beam=2, path="best")


def test_a_damaged_model_is_told() -> None:
    model = parallel_model("ctc")
    with torch.no_grad():
        model.head.weight.fill_(torch.nan)
    with pytest.raises(QkvError, match="not a number"):
        decode(model, [[7]])
