"""A driver whose models are gone before an actor opens them, as on a machine that never had them."""

import json
import sys
from pathlib import Path

from qkv.translate.cluster.actors import in_actors
from qkv.translate.cluster.connection import connected
from qkv.translate.cluster.translating import shipped_decoder
from qkv.translate.settings import translation_config
from qkv.translate.texts import DecodeOptions, SourceText


def translate_from_afar(address: str, model: str, text: str, *settings: str) -> None:
    """Print the texts that an actor makes of some words; then every folder `*-here` is called `*-gone`."""
    options = DecodeOptions(token_scores=False)
    translator = translation_config(settings, Path(model)).translator([Path(model)], "torch")
    with connected(address, 1) as cluster:
        decoder = shipped_decoder(translator, options)
        for folder in Path(model).parent.glob("*-here"):
            folder.rename(folder.with_name(folder.name.replace("here", "gone")))
        chunks = [(0, [SourceText(one) for one in text.split(",")])]
        (_, found), *_ = in_actors(cluster, decoder.open_chunks, chunks)
    # While it is connected, standard output is Ray's.
    sys.stdout.write(json.dumps([one.text for one in found] if isinstance(found, list) else str(found)) + "\n")
