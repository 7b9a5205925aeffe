"""The analysis of heads against loops, on planted patterns, and as a page."""

import json
import math
from html.parser import HTMLParser

import numpy as np
import pytest
import torch
from torch import Tensor

from qkv.core.errors import DataError, UsageError
from qkv.data.batch import collate
from qkv.models.language.masked import MaskedLMConfig
from qkv.models.saved.folder import SavedConfig, SavedModel
from qkv.models.transformer.head_ids import HeadId
from qkv.models.transformer.model import Transformer
from qkv.text import SPECIAL
from qkv.visual.heads import corpus as corpus_module
from qkv.visual.heads.analysis import HeadAnalysis, analyze_heads
from qkv.visual.heads.corpus import HeadCorpus
from qkv.visual.heads.distances import layer_distances
from qkv.visual.heads.profile import HeadProfile, KeyKinds, ProfileSums, is_punctuation
from qkv.visual.heads.report import analysis_dict, heads_report
from qkv.visual.heads.weights import SideWeights, analysed, heads_of, require_heads, weights_of
from tests.support.small import batch_of, small_config, small_model, small_text, transformer

PAIRS = [("aa ab ba", "ba aa"), ("ba", "ab ab"), ("bb ab", "bb"), ("aa aa bb ab ba cc", "cc ba"), (" ", "aa")]


@pytest.fixture(scope="module")
def saved() -> SavedModel:
    text, tokenizers = small_text()
    vocab = len(tokenizers.src)
    model = small_model(src_vocab=vocab, tgt_vocab=vocab).eval()
    return SavedModel(model, tokenizers, SavedConfig(model=small_config(), text=text))


def corpus(name: str = "pairs", limit: int | None = None) -> HeadCorpus:
    return HeadCorpus(name, lambda: PAIRS, limit)


@pytest.fixture(scope="module")
def found(saved: SavedModel) -> HeadAnalysis:
    return analyze_heads(saved, corpus())


def one_sentence(saved: SavedModel, src: str, tgt: str) -> tuple[Tensor, list[int], Tensor, list[int]]:
    """Weights of the first encoder layer and of the first cross-attention, with the ids of keys."""
    model = transformer(saved.model)
    src_ids, tgt_ids = (saved.tokenizers.src.encode(text) for text in (src, tgt))
    encoder, _, cross = weights_of(model, collate([src_ids], [tgt_ids], SPECIAL, SPECIAL, [0]))
    return encoder.weights[0, 0], [*src_ids, SPECIAL.eos], cross.weights[0, 0], tgt_ids


def test_profiles_equal_loops_over_queries_and_keys(saved: SavedModel, found: HeadAnalysis) -> None:
    entropy, confidence, previous, end, distance, off = [], [], [], [], [], []
    for src, tgt in PAIRS[:4]:
        weights, ids, cross, tgt_ids = one_sentence(saved, src, tgt)
        for query, row in enumerate(weights.double().tolist()):
            entropy.append(-sum(weight * math.log(weight) for weight in row))
            confidence.append(max(weight for weight, key in zip(row, ids, strict=True) if key != SPECIAL.eos))
            end.append(row[-1])
            distance.append(sum(weight * abs(key - query) for key, weight in enumerate(row)))
            if query:
                previous.append(row[query - 1])
        for query, row in enumerate(cross.double().tolist()):
            diagonal = query * (len(ids) - 1) / len(tgt_ids)
            off.append(sum(weight * abs(key - diagonal) for key, weight in enumerate(row)))
    first = found.sides[0].profiles[0]
    assert first.entropy == pytest.approx(np.mean(entropy), abs=1e-6)
    assert first.confidence == pytest.approx(np.mean(confidence), abs=1e-6)
    assert first.distance == pytest.approx(np.mean(distance), abs=1e-5)
    assert first.shares["previous"] == pytest.approx(np.mean(previous), abs=1e-6)
    assert first.shares["end"] == pytest.approx(np.mean(end), abs=1e-6)
    assert found.sides[2].profiles[0].distance == pytest.approx(np.mean(off), abs=1e-5)
    assert found.pairs == 4, "the pair with an empty side is skipped"


def test_small_batches_give_the_same(saved: SavedModel, found: HeadAnalysis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus_module, "WEIGHTS_AT_ONCE", 1)
    monkeypatch.setattr(corpus_module, "PAIRS_AT_ONCE", 2)
    again = analyze_heads(saved, corpus())
    for side, other in zip(found.sides, again.sides, strict=True):
        np.testing.assert_allclose(side.divergence, other.divergence, atol=1e-6)
        for one, two in zip(side.profiles, other.profiles, strict=True):
            assert one.entropy == pytest.approx(two.entropy, abs=1e-5)
            assert one.shares == pytest.approx(two.shares, abs=1e-5)


def test_what_a_side_cannot_attend_to_is_unknown_not_0(found: HeadAnalysis) -> None:
    decoder = found.sides[1].profiles[0]
    assert decoder.shares["next"] is None
    assert decoder.shares["end"] is None
    assert decoder.shares["first"] is not None


def planted(weights: Tensor, keys: Tensor) -> HeadProfile:
    """The profile of one head with these weights [Q, K]."""
    _, tokenizers = small_text()
    frequency = torch.arange(len(tokenizers.src))
    sums = ProfileSums(1)
    visible = torch.ones(1, *weights.shape, dtype=torch.bool)
    sums.add(SideWeights("encoder", weights[None, None], visible, keys[None]), KeyKinds.of(tokenizers.src, frequency))
    (found,) = sums.profiles([HeadId("encoder", 1, 1)])
    return found


def test_patterns_are_recognised() -> None:
    keys = torch.tensor([9, 6, 8, SPECIAL.eos])
    even = dict.fromkeys(("previous", "same", "next", "first", "end", "rare"), 0.25) | {"punctuation": None}
    before = torch.eye(4).roll(-1, 1)
    before[0] = torch.tensor([0.0, 0.0, 1.0, 0.0])
    assert planted(before, keys).role(even) == "the previous token"
    assert planted(before, keys).confidence == 1
    assert planted(torch.eye(4), keys).role(even) == "the same position"
    assert planted(torch.eye(4), keys).confidence == 0.75, "END is not counted as a key"
    to_rare = torch.tensor([0.0, 1.0, 0.0, 0.0]).expand(4, 4)
    assert planted(to_rare, keys).shares["rare"] == 1
    assert planted(to_rare, keys).role(even) == "the rarest word"
    spread = planted(torch.full((4, 4), 0.25), keys)
    assert spread.role(even) == "everything, evenly"
    assert spread.confidence == 0.25
    assert spread.evenness == pytest.approx(1)


@pytest.mark.parametrize(("piece", "is_one"), [(".", True), ("▁...", True), ("▁", False), ("a.", False), ("«", True)])
def test_punctuation(piece: str, is_one: bool) -> None:
    assert is_punctuation(piece) == is_one


def clustered(spread: list[float], heads: int = 4) -> tuple[np.ndarray, list[int]]:
    """Distances of heads around one centre for each layer; `spread` is how far the heads of a layer are apart."""
    random = np.random.default_rng(0)
    centres = 10 * np.eye(len(spread))
    points = np.concatenate(
        [
            centre + size * random.standard_normal((heads, len(spread)))
            for centre, size in zip(centres, spread, strict=True)
        ]
    )
    layers = [layer for layer in range(1, len(spread) + 1) for _ in range(heads)]
    return np.linalg.norm(points[:, None] - points[None], axis=-1), layers


def test_heads_that_cluster_by_layer_are_found() -> None:
    distances, layers = clustered([1, 1, 1, 1])
    found = layer_distances(distances, layers)
    assert found is not None
    assert found.p_alike < 0.01
    assert found.same_layer < found.other_layers
    random = np.random.default_rng(1)
    shuffled = random.permutation(len(layers))
    chance = layer_distances(distances[shuffled][:, shuffled], layers)
    assert chance is not None
    assert chance.p_alike > 0.05


def test_redundancy_that_grows_with_depth_is_found() -> None:
    points = np.random.default_rng(0).standard_normal((24, 24)) * np.repeat([6.0, 4.0, 2.0, 0.5], 6)[:, None]
    distances = np.linalg.norm(points[:, None] - points[None], axis=-1)
    found = layer_distances(distances, [layer for layer in (1, 2, 3, 4) for _ in range(6)])
    assert found is not None
    assert found.slope < 0
    assert found.p_depth < 0.01
    assert found.within == sorted(found.within, reverse=True)


def test_one_layer_or_one_head_a_layer_has_no_answer() -> None:
    assert layer_distances(np.zeros((4, 4)), [1, 1, 1, 1]) is None
    assert layer_distances(np.zeros((3, 3)), [1, 2, 3]) is None


def test_layers_that_share_weights_are_told_apart() -> None:
    model = small_model(share_layers=True).eval()
    assert [str(head) for head in heads_of(model)["cross"]] == ["cross 1.1", "cross 1.2", "cross 2.1", "cross 2.2"]
    encoder, decoder, cross = weights_of(model, batch_of([(3, 4), (5, 2)]))
    assert (encoder.weights.shape, cross.weights.shape) == ((2, 4, 6, 6), (2, 4, 5, 6))
    assert not torch.equal(decoder.weights[:, :2], decoder.weights[:, 2:])


def test_models_without_such_heads_are_refused() -> None:
    with pytest.raises(UsageError, match="reads no given target"):
        require_heads(small_model(decoder="nat"))
    with pytest.raises(UsageError, match="another depth for each sentence"):
        require_heads(small_model(stack="adaptive"))


def test_an_empty_corpus_is_refused(saved: SavedModel) -> None:
    with pytest.raises(DataError, match="holds only empty pairs"):
        analyze_heads(saved, HeadCorpus("nothing", lambda: [("", "")]))


def test_the_page_is_escaped_and_loads_nothing(saved: SavedModel) -> None:
    name = "<script>alert(1)</script><img src=x onerror=alert(1)>"
    page = heads_report(analyze_heads(saved, corpus(name, limit=2)), name)
    tags: list[tuple[str, list[str]]] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            tags.append((tag, [key for key, _ in attrs]))

    Reader().feed(page)
    assert not {"script", "img", "iframe", "link"} & {tag for tag, _ in tags}
    assert not [key for _, keys in tags for key in keys if key.startswith("on")]
    assert "default-src 'none'; style-src 'unsafe-inline'" in page
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org", "")
    assert page.count("<svg") == 6, "a map and a chart of layers for each side"


def test_plain_data_is_json(found: HeadAnalysis) -> None:
    data = json.loads(json.dumps(analysis_dict(found), allow_nan=False))
    assert list(data["sides"]) == ["encoder", "decoder", "cross"]
    assert len(data["sides"]["cross"]["heads"]) == 4


def test_a_model_keeps_its_mode(saved: SavedModel) -> None:
    model: Transformer = small_model()
    weights_of(model, batch_of([(2, 2)]))
    assert model.training


def test_the_encoder_of_a_text_model_is_analysed_by_itself() -> None:
    text, tokenizers = small_text()
    config = MaskedLMConfig(
        d_model=16, d_ff=24, num_heads=2, num_layers=3, positions={"kind": "learned", "max_length": 6}
    )
    torch.manual_seed(0)
    saved = SavedModel(config.build(tokenizers).eval(), tokenizers, SavedConfig(model=config, text=text))
    read = HeadCorpus("texts", lambda: [("aa ab", "x"), ("aa ab ba bb cc ca cb", "x")])
    (side,) = analyze_heads(saved, read).sides
    assert (side.side, len(side.heads), side.importance) == ("encoder", 6, None)
    assert side.profiles[0].shares["end"] is not None
    (batch,) = read.batches(saved.model, tokenizers, 6)
    (seen,) = weights_of(analysed(saved.model), batch)
    assert seen.weights.shape == (2, 6, 6, 6), "a long text is cut where the model has no more positions"
    torch.testing.assert_close(seen.weights.sum(-1).transpose(1, 2)[seen.queries], torch.ones(10, 6))
    page = heads_report(analyze_heads(saved, read), "texts")
    assert "<td>–</td>" in page
    with pytest.raises(UsageError, match="is for a Transformer, not for a model of the kind masked_lm"):
        require_heads(saved.model)
