"""Where outputs come from: a file that holds them, or a model that is asked now."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from qkv.errors import UsageError
from qkv.evaluation.files import EvaluationSet, read_outputs
from qkv.progress import Reporter

if TYPE_CHECKING:
    from qkv.decoding.engines import EngineName


def outputs_of(
    system: Path, test: EvaluationSet, settings: Sequence[str], engine: "EngineName", reporter: Reporter
) -> list[str]:
    """The lines of a file, or what the model in a folder says."""
    return decode_outputs([system], test, settings, engine, reporter) if system.is_dir() else read_outputs(system, test)


def decode_outputs(
    models: Sequence[Path], test: EvaluationSet, settings: Sequence[str], engine: "EngineName", reporter: Reporter
) -> list[str]:
    """What a model says to the sources of the test set, or several models that vote. `settings` are overrides."""
    if test.sources is None:
        raise UsageError(f"{models[0]}: a model needs something to translate: give the sources by --src FILE")
    # Outputs that are there already are measured without waiting for torch.
    from qkv.decoding.settings import translation_config
    from qkv.decoding.translator import Translator

    config = translation_config(settings)
    translator = Translator(
        models, engine, config.search, batch_tokens=config.batch_tokens, max_src_tokens=config.max_src_tokens
    )
    counting = reporter.counting(f"Decoding with {models[0]}")
    found = translator.translate(test.sources, token_scores=False, progress=counting)
    if cut := sum(translation.truncated for translation in found):
        reporter.say(f"{models[0]}: {cut:,} of {len(found):,} outputs are cut: the source or the output is too long")
    return [translation.text for translation in found]
