"""Decodes the batches of a stream in several threads, for an engine that releases the GIL."""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from qkv.search.hypothesis import Hypothesis
from qkv.translate.texts import PreparedTexts, SourceText, TextDecoder
from qkv.translate.translation import Translation

Waiting = tuple[PreparedTexts, list[Future[list[list[Hypothesis]]]]]


def translate_in_threads(decoder: TextDecoder, chunks: Iterable[list[SourceText]]) -> Iterator[list[Translation]]:
    """The translations of each chunk, in order. The batches of the next chunk are ready before one is finished."""
    waiting: deque[Waiting] = deque()

    def finished() -> list[Translation]:
        prepared, batches = waiting.popleft()
        return decoder.finish(prepared, [batch.result() for batch in batches])

    with ThreadPoolExecutor(decoder.engine.parallel) as threads:
        try:
            for chunk in chunks:
                prepared = decoder.prepare(chunk)
                waiting.append((prepared, [threads.submit(decoder.decode, prepared, own) for own in prepared.batches]))
                if len(waiting) > 1:
                    yield finished()
            while waiting:
                yield finished()
        finally:
            # Running batches are finished; the rest are cancelled.
            threads.shutdown(wait=False, cancel_futures=True)
