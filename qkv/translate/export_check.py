"""Compares the outputs of an exported model with those of the original."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from qkv.core.errors import CorruptFolder, UsageError
from qkv.core.progress import Reporter
from qkv.data.store import PairStore
from qkv.engines.agreement import SOURCES, agreement, mean_scores, sample_sources
from qkv.engines.base import DecodeRequest
from qkv.engines.fast_engines import engine_for_export, missing_packages
from qkv.engines.torch_engine import TorchEngine
from qkv.models.saved.folder import SavedModel
from qkv.search.default import default_search
from qkv.translate.jobs.line_work import read_sources


def sample_texts(sample: Path | None, dev_data: Path) -> list[str] | None:
    """Sources from the file `sample`, or else from the prepared dev data of a run; None if there are none."""
    if sample is not None:
        texts = (source.text for source in read_sources(sample, None, "error"))
        if not (found := list(islice(filter(str.strip, texts), SOURCES))):
            raise UsageError(f"{sample}: has no source; give a file with one source a line, or leave out --sample")
        return found
    try:
        store = PairStore.open(dev_data)
    except CorruptFolder:
        # Not a run, or one whose data was removed.
        return None
    count = min(len(store), SOURCES)
    return [src for src, _ in store.read([number * len(store) // count for number in range(count)])]


@dataclass(frozen=True)
class ExportCheck:
    """Compares an export with its model on `texts` (None: random ones); an argument of `export_model`."""

    to: str
    quantization: str | None
    texts: Sequence[str] | None
    reporter: Reporter

    def __call__(self, saved: SavedModel, folder: Path) -> None:
        if self.quantization not in (None, "float32"):
            self._compare_outputs(saved, folder)
        else:
            self._compare_search(saved, folder)

    def _compare_outputs(self, saved: SavedModel, folder: Path) -> None:
        """Report how far a quantised model agrees with float32, and reject one that outputs noise."""
        fast = engine_for_export(self.to)
        if fast is None:
            return
        if missing := missing_packages(fast, exported=True):
            self.reporter.say(f"not compared with float32, because {fast.name} cannot run here: {missing[0]}")
            return
        engine = fast.open(folder, 1)
        sources = sample_sources(saved, self.texts, engine.src_limit)
        found = agreement(saved, engine, sources, self.reporter.counting("Comparing with float32"))
        found.refuse_noise(str(self.quantization))
        kind = "random sources" if self.texts is None else "sources"
        self.reporter.say(f"{self.quantization} compared with float32 on {len(sources)} {kind}: {found}")

    def _compare_search(self, saved: SavedModel, folder: Path) -> None:
        """Warn if the default search finds worse outputs in the export than in the model."""
        fast = engine_for_export(self.to)
        request = DecodeRequest(default_search(saved.config).within(saved.config.length_limit), 1, [])
        if fast is None or missing_packages(fast, exported=True) or not fast.approximates(request):
            return
        engine = fast.open(folder, 1)
        sources = sample_sources(saved, self.texts, engine.src_limit)
        scores = mean_scores(engine, TorchEngine([saved.model]), sources, request)
        if scores.worse:
            self.reporter.say(
                f"{folder}: its beam search is worse than torch's ({scores}); decode with search.stop=exact"
            )
