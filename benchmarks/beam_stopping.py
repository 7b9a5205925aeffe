"""What the ways to stop a beam search cost, and what they find: time, agreement with `exact`, mean score.

    python benchmarks/beam_stopping.py MODEL --src FILE [--count 10000] [--engine torch] [search.size=5 ...]
    python benchmarks/beam_stopping.py --random 10 [--count 10000]

FILE has a source a line; what follows a tab is left out. `--random` takes so many models of random weights and 14
tokens instead. Time is processor time of one thread, relative to `enough`. The scores are log p over the length
penalty, for greedy search too.
"""

import argparse
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import fmean

import torch

from qkv.config.overrides import apply_overrides
from qkv.data.batching import by_length
from qkv.data.length_limit import LengthLimit
from qkv.engines.base import DecodeRequest, Engine
from qkv.engines.choose import Engines
from qkv.engines.fast_engines import EngineName
from qkv.engines.model_set import ModelSet
from qkv.engines.torch_engine import TorchEngine
from qkv.models.saved.locate import locate_model
from qkv.models.transformer.build import build_model
from qkv.models.transformer.config import TransformerConfig
from qkv.search.base import Constraints, SearchConfig
from qkv.search.beam import BeamConfig
from qkv.search.greedy import GreedyConfig
from qkv.search.hypothesis import Hypothesis
from qkv.text import SPECIAL
from qkv.translate.translator import MAX_SRC_TOKENS

Work = list[tuple[Engine, list[list[int]]]]
"""Engines and the sources for each."""
SMALL = {
    "d_model": 16,
    "d_ff": 24,
    "num_heads": 2,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "share_embeddings": "none",
}
VOCABULARY = 14


@dataclass
class Found:
    outputs: list[Hypothesis]
    seconds: float


def search_all(work: Work, search: SearchConfig) -> Found:
    began = time.process_time()
    outputs: list[Hypothesis] = []
    for engine, sources in work:
        for rows in by_length([len(ids) for ids in sources], search.rows, engine.batch_tokens):
            request = DecodeRequest(search, 1, [Constraints()] * len(rows), token_scores=True)
            outputs += [own[0] for own in engine.decode([sources[row] for row in rows], request)]
    return Found(outputs, time.process_time() - began)


def given_model(models: ModelSet, name: EngineName, file: Path, count: int) -> Work:
    with file.open(encoding="utf-8") as lines:
        texts = [line.rstrip("\n").split("\t")[0] for line in islice(lines, count)]
    sources = [[*ids, SPECIAL.eos] for ids in models.tokenizers.src.encode_batch(texts) if ids]
    engine = Engines(models, name, 1, MAX_SRC_TOKENS).choose(
        DecodeRequest(BeamConfig(stop="enough"), 1, [Constraints()])
    )
    return [(engine, sources)]


def random_models(number: int, count: int) -> Work:
    work: Work = []
    for seed in range(number):
        torch.manual_seed(seed)
        model = build_model(TransformerConfig(**SMALL), VOCABULARY, VOCABULARY, SPECIAL.pad).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
        chance = random.Random(seed)
        lengths = (chance.randint(1, 8) for _ in range(count // number))
        sources = [[*(chance.randrange(5, VOCABULARY) for _ in range(length)), SPECIAL.eos] for length in lengths]
        work.append((TorchEngine([model]), sources))
    return work


def report(work: Work, changes: dict[str, object], learnt: LengthLimit | None) -> None:
    """A line for each way to stop; batches are the same for all but greedy search."""
    stops = ("enough", "heuristic", "exact")
    beams = {stop: BeamConfig.model_validate({**changes, "stop": stop}).within(learnt) for stop in stops}
    limits = beams["exact"].model_dump(include={"max_length", "max_factor", "max_extra"})
    search_all([(engine, sources[:20]) for engine, sources in work], beams["exact"])
    found = {stop: search_all(work, beam) for stop, beam in beams.items()}
    greedy = search_all(work, GreedyConfig.model_validate(limits))
    exact, penalty = found["exact"], beams["exact"].length_penalty
    mean = fmean(sum(one.token_scores) / penalty.at(len(one.token_scores)) for one in greedy.outputs)
    print(f"{len(exact.outputs):,} sentences, engine {work[0][0].name}\n")
    print("| stop | time | as `exact` | mean score |\n|---|---|---|---|")
    for stop, own in found.items():
        same = fmean(a.tokens == b.tokens for a, b in zip(own.outputs, exact.outputs, strict=True))
        score = fmean(one.score for one in own.outputs)
        print(f"| `{stop}` | {own.seconds / found['enough'].seconds:.2f} | {100 * same:.2f} % | {score:.4f} |")
    print(f"| greedy search | {greedy.seconds / found['enough'].seconds:.2f} | | {mean:.4f} |")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, nargs="?")
    parser.add_argument("settings", nargs="*", metavar="search.key=value")
    parser.add_argument("--src", type=Path)
    parser.add_argument("--engine", choices=["torch", "ctranslate2"], default="torch")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--random", type=int, default=0, metavar="MODELS")
    options = parser.parse_intermixed_args(arguments)
    if not options.random and not (options.model and options.src):
        parser.error("give a model and --src, or --random")
    torch.set_num_threads(1)
    changes = dict(apply_overrides({}, options.settings).get("search", {}))
    if options.random:
        report(random_models(options.random, options.count), changes, None)
    else:
        models = ModelSet([locate_model(options.model)])
        work = given_model(models, options.engine, options.src, options.count)
        report(work, changes, models.config.length_limit)


if __name__ == "__main__":
    main()
