"""The outputs of a system: read from a file, or decoded by a model."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from qkv.core.errors import UsageError
from qkv.core.progress import Reporter
from qkv.evaluation.decoding import Decoding, SystemOutputs
from qkv.evaluation.files import EvaluationSet, read_outputs
from qkv.text.unknown.count import UnknownCount

if TYPE_CHECKING:
    from qkv.engines.fast_engines import EngineName
    from qkv.translate.output import Translation
    from qkv.translate.translator import Translator


def outputs_of(
    system: Path,
    test: EvaluationSet,
    settings: Sequence[str],
    beam: int | None,
    engine: "EngineName",
    reporter: Reporter,
) -> SystemOutputs:
    """The lines of a file, or the outputs of the model in a folder."""
    if system.is_dir():
        return decode_outputs([system], test, settings, beam, engine, reporter)
    return SystemOutputs(read_outputs(system, test))


def decode_outputs(
    models: Sequence[Path],
    test: EvaluationSet,
    settings: Sequence[str],
    beam: int | None,
    engine: "EngineName",
    reporter: Reporter,
    device: str = "auto",
    on: str | None = None,
) -> SystemOutputs:
    """The outputs of a model, or of an ensemble, for the sources of the test set.

    `settings` are overrides, `beam` the size of a beam search if it is not among them. `on` names a cluster.
    """
    if test.sources is None:
        raise UsageError(f"{models[0]}: a model needs something to translate: give the sources by --src FILE")
    # Outputs from a file are scored without importing torch.
    from qkv.core.devices import say_where
    from qkv.translate.cluster.translating import translate_list_on
    from qkv.translate.output import plain
    from qkv.translate.settings import translation_config, with_beam

    config = translation_config(with_beam(settings, beam, models[0]), models[0])
    translator = config.translator(models, engine, device=device)
    say_where(reporter.say, "decoding", translator.models.device)
    counting = reporter.counting(f"Decoding with {models[0]}")
    if on is None:
        found = translator.translate(test.sources, token_scores=False, progress=counting)
    else:
        found = translate_list_on(on, translator, test.sources, counting)
    # The lines of `qkv translate`: kept in a file, they score the same.
    lines = [plain(number, translation).removesuffix("\n") for number, translation in enumerate(found, start=1)]
    return SystemOutputs(lines, _decoding(translator, found))


def _decoding(translator: "Translator", found: Sequence["Translation"]) -> Decoding:
    from qkv.translate.texts import DecodeOptions

    return Decoding(
        engine=translator.decoder(DecodeOptions(token_scores=False)).engine.name,
        search=translator.search.model_dump(mode="json"),
        outputs=len(found),
        outputs_cut=sum(translation.out_cut for translation in found),
        sources_cut=sum(translation.src_cut for translation in found),
        sources_split=sum(translation.parts > 1 for translation in found),
        unknown=UnknownCount().add(translation.unknown for translation in found),
    )
