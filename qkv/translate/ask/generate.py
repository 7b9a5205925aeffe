"""Continues texts with a causal language model: the same searches and the same KV cache as translation."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from qkv.config import Config
from qkv.core.errors import UsageError
from qkv.data.batching import in_chunks
from qkv.engines.base import DecodeRequest
from qkv.engines.torch_engine import TorchEngine
from qkv.models.asked import require_asked
from qkv.models.saved.folder import SavedModel, load_model
from qkv.search.base import Constraints, SearchConfig
from qkv.search.kinds import AnySearch
from qkv.search.sampling import SampleConfig

AT_ONCE = 16


class GenerationConfig(Config):
    """How texts are continued."""

    search: AnySearch = SampleConfig()
    """How a continuation is found: sample, greedy, beam or mbr."""
    max_tokens: int = 64
    """The most tokens of a continuation."""


@dataclass(frozen=True)
class Generated:
    """A text that begins with its prompt."""

    text: str
    tokens: list[str]
    score: float
    """The search's score of the whole text; of a sample log p."""
    ended: bool
    """False: it was cut at the limit."""


class Generator:
    """Continues texts.

    Args:
        model: The folder of a causal_lm or of its run, or the model as `load_model` gives it.
        search: The search, by default one sample.
        max_tokens: The most tokens of a continuation.
    """

    def __init__(
        self, model: Path | str | SavedModel, search: SearchConfig | None = None, max_tokens: int = 64
    ) -> None:
        self.saved = model if isinstance(model, SavedModel) else load_model(model)
        require_asked(self.saved.config.model, "generate", "this" if isinstance(model, SavedModel) else model)
        search = search or SampleConfig()
        if search.parallel:
            raise UsageError("a causal_lm writes token by token: use search.kind sample, greedy, beam or mbr")
        if search.max_length is None and search.max_factor is None and search.max_extra is None:
            # The source of a continuation is its prompt.
            search = search.model_copy(update={"max_factor": 1.0, "max_extra": max_tokens})
        self.search = search
        self.engine = TorchEngine([self.saved.model], self.saved)

    def generate(self, prompts: Sequence[str], nbest: int = 1) -> list[list[Generated]]:
        """The best `nbest` texts that begin with each prompt; a prompt may be empty."""
        tokenizer = self.saved.tokenizers.tgt
        ids = tokenizer.encode_batch(list(prompts))
        limit = self.saved.model.limits.tgt
        for own in ids:
            if limit is not None and len(own) + 1 >= limit:
                raise UsageError(
                    f"a prompt of {len(own)} tokens leaves no room in the model's {limit} positions; shorten it"
                )
        constraints = [Constraints(prefix=own) for own in ids]
        sources = [[*own, tokenizer.special.eos] for own in ids]
        request = DecodeRequest(self.search, nbest, constraints, detokenize=[tokenizer.decode for _ in ids])
        found = self.engine.decode(sources, request)
        return [
            [Generated(tokenizer.decode(one.tokens), tokenizer.tokens(one.tokens), one.score, one.ended) for one in own]
            for own in found
        ]

    def stream(self, prompts: Iterable[str], nbest: int = 1, at_once: int = AT_ONCE) -> Iterator[list[Generated]]:
        """The same for any number of prompts, in order, `at_once` of them at a time."""
        for some in in_chunks(prompts, at_once):
            yield from self.generate(some, nbest)
