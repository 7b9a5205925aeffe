"""The number of hypotheses that memory and vocabulary allow."""

from qkv.core.errors import UsageError
from qkv.kernels.memory import available_memory
from qkv.models.config import Seq2SeqConfig
from qkv.models.saved.folder import SavedConfig
from qkv.search.base import SearchConfig
from qkv.search.beam import BeamConfig

FLOAT = 4
STATE_COPIES = 3
"""The KV cache, and the copy that reordering it makes; measured."""
LOGIT_COPIES = 4
USUAL_SOURCE, USUAL_OUTPUT = 32, 128
"""Assumed source length if the model does not know its own, and the longest output that is counted."""


def require_search_memory(search: SearchConfig, config: SavedConfig, vocabulary: int) -> None:
    """Reject a search whose hypotheses do not fit in memory, before anything is allocated."""
    wanted = search.hypotheses
    # There are only so many prefixes of two tokens: most of a wider beam would stay empty.
    if isinstance(search, BeamConfig) and wanted > vocabulary**2:
        raise UsageError(
            f"search.size={wanted:,}: the vocabulary of {vocabulary:,} tokens has only {vocabulary**2:,} beginnings of "
            "two tokens; give at most so many"
        )
    available = available_memory()
    each = _bytes_of_one(search, config.seq2seq, config.median_src or USUAL_SOURCE, vocabulary)
    if available is not None and wanted * each > available:
        raise UsageError(
            f"search: {wanted:,} hypotheses of a sentence need about {wanted * each / 2**30:,.1f} GiB of memory, and "
            f"{available / 2**30:,.1f} GiB are free; give at most {max(1, available // each):,} (search.size, samples, "
            "beam or length_beam)"
        )


def _bytes_of_one(search: SearchConfig, model: Seq2SeqConfig, src_length: int, vocabulary: int) -> int:
    """Bytes of a hypothesis: keys and values of its tokens and of the source in each layer, and its logits."""
    longest = min(search.limits(src_length).max_length, USUAL_OUTPUT)
    state = model.state_size(src_length, longest)
    return FLOAT * (STATE_COPIES * state + LOGIT_COPIES * vocabulary)
