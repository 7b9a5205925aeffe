"""Outputs of models from a source to a target, found by a search."""

from collections.abc import Sequence
from itertools import chain

from qkv.data.stream import BatchStream
from qkv.engines.torch_engine import TorchEngine
from qkv.evaluation.metrics.registry import group_by_source
from qkv.models.base import Model
from qkv.search.default import quick_search
from qkv.training.outputs.base import Answer, DevData, OutputsKind, Tick, outputs
from qkv.translate.texts import DecodeOptions, SourceText, TextDecoder


class Translations:
    """Outputs are compared with the targets as they are in the data, as in `qkv evaluate`."""

    def __init__(self, dev: DevData) -> None:
        assert isinstance(dev.stream, BatchStream)
        self.dev = dev
        pairs = list(chain.from_iterable(dev.stream.store.chunks()))
        self.sources, self.answers = group_by_source([src for src, _ in pairs], [tgt for _, tgt in pairs])

    def __len__(self) -> int:
        return len(self.sources)

    def __call__(self, model: Model, chosen: Sequence[int], tick: Tick) -> list[Answer]:
        dev, sources = self.dev, [self.sources[i] for i in chosen]
        search = (dev.search or quick_search(model)).within(dev.length_limit)
        options = DecodeOptions(token_scores=False)
        decoder = TextDecoder(TorchEngine([model]), dev.tokenizers, search, options, dev.stream.batch_tokens)
        found = decoder([SourceText(text) for text in sources], lambda done: tick(done, len(sources)))
        return [
            Answer(self.sources[i], output.text, self.answers[i], output.out_cut)
            for i, output in zip(chosen, found, strict=True)
        ]


outputs.register("translate", OutputsKind(("pairs",), Translations))
