"""LibreTranslate's own server with a model of ours, for `serve_load.py --beside`.

    qkv export es-en --to ctranslate2 --out es-en-fast
    python -m venv libre && libre/bin/pip install libretranslate
    libre/bin/python benchmarks/libretranslate_server.py es-en-fast --source es --target en --port 5001

It runs with the Python that LibreTranslate is installed in and needs nothing of qkv. The export becomes a package of
Argos Translate (`.argosmodel`), which is installed into a temporary folder; the model must read both languages with one
SentencePiece model. Search is a beam of 5 with one thread for each core, as `qkv serve` has it. LibreTranslate splits
texts into sentences by a model that it downloads; here a text is one sentence, which saves it that work.
"""

import argparse
import json
import os
import sys
import tempfile
import zipfile
from pathlib import Path

MODEL_FILES = ("model.bin", "shared_vocabulary.json")
PIECES = Path("tokenizer") / "shared" / "sentencepiece.model"


def write_package(export: Path, source: str, target: str, file: Path) -> None:
    """A package of Argos Translate with the model of an export."""
    name = f"qkv-{source}_{target}"
    about = {"package_version": "1.0", "argos_version": "1.9", "from_code": source, "to_code": target}
    about |= {"from_name": source, "to_name": target}
    # Our sources end with END, which Argos Translate leaves to CTranslate2.
    config = json.loads((export / "config.json").read_text(encoding="utf-8")) | {"add_source_eos": True}
    with zipfile.ZipFile(file, "w") as package:
        package.writestr(f"{name}/metadata.json", json.dumps(about))
        package.writestr(f"{name}/model/config.json", json.dumps(config))
        for each in MODEL_FILES:
            package.write(export / each, f"{name}/model/{each}")
        package.write(export / PIECES, f"{name}/sentencepiece.model")


def serve(export: Path, source: str, target: str, port: int, home: Path) -> None:
    """Until it is ended."""
    cores = len(os.sched_getaffinity(0))
    places = {name: str(home / name.lower()) for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")}
    # Its settings are read when it is imported.
    os.environ.update(
        places,
        ARGOS_PACKAGES_DIR=str(home / "packages"),
        ARGOS_INTER_THREADS=str(cores),
        ARGOS_INTRA_THREADS="1",
        ARGOS_BEAM_SIZE="5",
        OMP_NUM_THREADS="1",
    )
    os.chdir(home)
    from argostranslate import package, sbd
    from libretranslate import init
    from libretranslate.main import main

    file = home / "model.argosmodel"
    write_package(export, source, target, file)
    package.install_from_path(file)
    sbd.MiniSBDSentencizer.split_sentences = lambda self, text: [text]
    init.boot = lambda *args, **settings: None  # it would look for models on the network
    # A thread waits for each of its connections; 64 clients ask at once.
    sys.argv = ["libretranslate", "--host", "127.0.0.1", "--port", str(port), "--load-only", f"{source},{target}"]
    sys.argv += ["--disable-web-ui", "--disable-files-translation", "--threads", "64", "--req-limit", "0"]
    main()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("export", type=Path, help="a folder of qkv export --to ctranslate2")
    parser.add_argument("--source", required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--port", type=int, default=5001)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        serve(options.export.resolve(), options.source, options.target, options.port, Path(temporary))
