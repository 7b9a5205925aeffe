"""The files that `fuzz_files.py` spoils, and what reads each of them."""

import gzip
import json
import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, get_args

import zstandard
from mutations import SHARDING, spoilt_bytes, spoilt_json, spoilt_lines, spoilt_offsets, spoilt_safetensors
from torch import Tensor

from qkv.config import dump_config, load_config
from qkv.config.yaml import read_yaml
from qkv.core.files import MANIFEST, manifest_checksum, new_folder, sha256_of, verify_folder
from qkv.data.build import build_store
from qkv.data.lines import Policy, ReadCounts
from qkv.data.readers import CorpusConfig, CsvCorpus, JsonLinesCorpus, ParquetCorpus, TextCorpus, TsvCorpus
from qkv.data.store import PairLimits, PairStore
from qkv.models.base import Model
from qkv.models.saved.folder import CONFIG, TOKENIZER, WEIGHTS, SavedConfig, SavedModel, save_model
from qkv.models.saved.weights import load_weights, named_weights, read_weights, require_model_memory, write_tensors
from qkv.text import TextConfig, load_tokenizers
from qkv.training.optimizers import AdamWConfig
from qkv.training.recipe import Recipe
from qkv.training.run.checkpoint import OPTIMIZER, STATE, about_checkpoint, checkpoint_name, write_state
from qkv.training.run.folder import read_metrics
from qkv.training.run.learner import Learner, load_checkpoint, save_checkpoint
from qkv.training.run.state import TrainState
from qkv.training.sharded.files import WEIGHT
from qkv.translate.jobs.job import open_job

Spoil = Callable[[bytes, random.Random], bytes]
PAIRS = [("the cat", "die Katze"), ("a dog runs", "ein Hund läuft"), ("yes", "ja"), ("two small birds", "zwei Vögel")]
TOKENIZERS: dict[str, dict[str, Any]] = {
    "char": {"kind": "char"},
    "whitespace": {"kind": "whitespace"},
    "bpe": {"kind": "bpe", "vocab_size": 300, "dropout": 0.1},
    "sentencepiece": {
        "kind": "sentencepiece",
        "model": "unigram",
        "vocab_size": 36,
        "byte_fallback": False,
        "sampling": 0.1,
    },
}
SIZES = {"d_model": 8, "d_ff": 8, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0}


@dataclass
class Target:
    """A file, how it is spoilt and what reads it."""

    name: str
    path: Path
    spoilers: Sequence[Spoil]
    read: Callable[[], Any]
    folder: Path | None = None
    """The folder whose manifest names the file."""

    def __post_init__(self) -> None:
        self.content = self.path.read_bytes()
        self.manifest = json.loads((self.folder / MANIFEST).read_bytes()) if self.folder else {}

    def restore(self) -> None:
        """Other files may be read together with this one."""
        self.path.write_bytes(self.content)

    def spoil(self, chance: random.Random) -> None:
        self.path.write_bytes(chance.choice(self.spoilers)(self.content, chance))
        if self.folder is not None:
            if self.path.name == MANIFEST:
                _forge(self.path)
            else:
                entry = {"size": self.path.stat().st_size, "sha256": sha256_of(self.path)}
                manifest = {**self.manifest, "files": {**self.manifest["files"], _name(self.path, self.folder): entry}}
                (self.folder / MANIFEST).write_text(json.dumps({**manifest, "checksum": manifest_checksum(manifest)}))


def _name(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix()


def _forge(path: Path) -> None:
    """Give a spoilt manifest a checksum that fits, if it can have one."""
    try:
        manifest = json.loads(path.read_bytes())
        path.write_text(json.dumps({**manifest, "checksum": manifest_checksum(manifest)}))
    except (ValueError, TypeError, RecursionError):
        pass


def make_targets(folder: Path) -> list[Target]:
    return [
        *_model(folder),
        *_tokenizers(folder),
        *_run(folder),
        *_sharded(folder),
        *_store(folder),
        *_corpora(folder),
        *_rest(folder),
    ]


def _saved() -> SavedModel:
    text = TextConfig.model_validate({"shared": {"kind": "char"}})
    pair = text.train(lambda: [src for src, _ in PAIRS], lambda: [tgt for _, tgt in PAIRS])
    config = SavedConfig.model_validate({"model": SIZES, "text": text})
    return SavedModel(config.model.build(pair), pair, config)


def _model(folder: Path) -> list[Target]:
    save_model(folder / "model", _saved())
    found = []
    for name, file, spoilers in (
        ("manifest.json", MANIFEST, [spoilt_json, spoilt_bytes]),
        ("model.safetensors", WEIGHTS, [spoilt_safetensors, spoilt_bytes]),
        ("text.json", f"{TOKENIZER}/text.json", [spoilt_json, spoilt_bytes]),
    ):
        own = Path(shutil.copytree(folder / "model", folder / f"model {name}"))
        readers: dict[str, Callable[[], Any]] = {
            MANIFEST: partial(verify_folder, own),
            WEIGHTS: partial(_read_weights, own, _saved().model),
        }
        read = readers.get(file, partial(load_tokenizers, own / TOKENIZER))
        found.append(Target(name, own / file, list(spoilers), read, own))
    config = folder / "saved" / CONFIG
    config.parent.mkdir()
    config.write_text(json.dumps(read_yaml(folder / "model" / CONFIG).data))
    found.append(Target("config.yaml", config, [spoilt_json], lambda: load_config(SavedConfig, config)))
    plain = config.with_name("plain.yaml")
    plain.write_bytes((folder / "model" / CONFIG).read_bytes())
    found.append(Target("config.yaml, its text", plain, [spoilt_bytes], lambda: load_config(SavedConfig, plain)))
    return found


def _read_weights(folder: Path, model: Model) -> None:
    """As `load_model` does it; the model is not built each time."""
    require_model_memory(folder / WEIGHTS)
    verify_folder(folder)
    load_weights(model, read_weights(folder / WEIGHTS), folder)


def _tokenizers(folder: Path) -> list[Target]:
    """Every file of every kind; what was read must also work."""
    found = []
    for kind, settings in TOKENIZERS.items():
        config = TextConfig.model_validate({"shared": settings})
        own = folder / f"tokenizer {kind}"
        own.mkdir()
        texts = [side for pair in PAIRS for side in pair]
        config.save(config.train((texts * 20).copy, lambda: []), own)

        def read(own: Path = own) -> None:
            tokenizer = load_tokenizers(own).src
            ids = tokenizer.encode("the cat läuft \u4e2d")
            tokenizer.sample("the cat", random.Random(1))
            assert all(0 <= each < len(tokenizer) for each in ids), ids
            tokenizer.decode([*ids, *range(len(tokenizer))][:1000])
            tokenizer.tokens(ids)

        for path in sorted((own / "shared").iterdir()):
            spoilers = [spoilt_json, spoilt_bytes] if path.suffix == ".json" else [spoilt_bytes]
            found.append(Target(f"{kind} {path.name}", path, spoilers, read))
    return found


def _run(folder: Path) -> list[Target]:
    found = []
    for name, spoilers in (
        (STATE, [spoilt_json, spoilt_bytes]),
        (OPTIMIZER, [spoilt_safetensors, spoilt_bytes]),
        (MANIFEST, [spoilt_json, spoilt_bytes]),
    ):
        model = _saved().model
        learner = Learner(model, AdamWConfig().build(model), None)
        own = save_checkpoint(folder / f"run {name}", learner, TrainState(last_scores={"loss": 2.5}))

        def read(own: Path = own, learner: Learner = learner) -> None:
            verify_folder(own)
            load_checkpoint(own, learner)

        found.append(Target(f"checkpoint {name}", own / name, list(spoilers), read, own))
    metrics = folder / "metrics.jsonl"
    lines = [{"update": n, "epoch": 0.1, "loss": 2.5, "lr": 1e-3} for n in range(5)] + [{"validation": 5, "loss": 2.0}]
    metrics.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found.append(
        Target("metrics.jsonl", metrics, [spoilt_lines(spoilt_json), spoilt_bytes], lambda: read_metrics(metrics))
    )
    return found


def _sharded(folder: Path) -> list[Target]:
    """The checkpoint of a sharded run of two ranks: what one process resumes from."""
    model = _saved().model
    learner = Learner(model, AdamWConfig().build(model), None)
    tensors = {f"{WEIGHT}{name}": weight for name, weight in named_weights(model).items()} | learner.tensors()
    own = folder / "sharded" / checkpoint_name(0)
    with new_folder(own, about_checkpoint(TrainState())) as temporary:
        write_state(temporary, TrainState())
        for rank in (0, 1):
            _write_shard(temporary / f"shard-0000{rank + 1}-model-00001-of-00001.safetensors", tensors, rank)

    def read() -> None:
        verify_folder(own)
        load_checkpoint(own, learner)

    spoilers: list[Spoil] = [spoilt_offsets, spoilt_safetensors, spoilt_bytes]
    return [Target("sharded checkpoint", next(own.glob("shard-00002*")), spoilers, read, own)]


def _write_shard(path: Path, tensors: Mapping[str, Tensor], rank: int) -> None:
    """The first or the second half of the rows of each tensor, as torch.distributed.checkpoint stores them."""
    rows, offsets = {}, {}
    for name, tensor in tensors.items():
        if tensor.dim():
            half = (len(tensor) + 1) // 2
            part, place = tensor[half * rank : half * (rank + 1)], [half * rank, *[0] * (tensor.dim() - 1)]
        else:
            part, place = tensor, []
        if part.numel() and (tensor.dim() or rank):
            rows[name], offsets[name] = part, {"saved_offsets": place}
    write_tensors(path, rows, {SHARDING: json.dumps(offsets)})


def _store(folder: Path) -> list[Target]:
    tsv = folder / "pairs.tsv"
    tsv.write_text("".join(f"{src}\t{tgt}\n" for src, tgt in PAIRS))
    saved = _saved()
    found = []
    for name, spoilers in (
        ("store.json", [spoilt_json, spoilt_bytes]),
        ("index.bin", [spoilt_bytes]),
        ("text.bin", [spoilt_bytes]),
        ("src_len.bin", [spoilt_bytes]),
    ):
        own = folder / f"store {name}"
        build_store(own, [TsvCorpus(path=tsv)], folder, "error", PairLimits(99, 99), saved.tokenizers)

        def read(own: Path = own) -> None:
            store = PairStore.open(own)
            store.read(range(len(store)))
            for _ in store.chunks(2):
                pass

        found.append(Target(name, own / name, list(spoilers), read, own))
    return found


def _corpora(folder: Path) -> list[Target]:
    """Every format of corpora, plain and compressed."""
    import pyarrow
    from pyarrow import parquet

    tsv = "".join(f"{src}\t{tgt}\n" for src, tgt in PAIRS).encode()
    csv = b"src,tgt\n" + b"".join(f'"{src}","{tgt}"\n'.encode() for src, tgt in PAIRS)
    jsonl = b"".join(json.dumps({"src": src, "tgt": tgt}).encode() + b"\n" for src, tgt in PAIRS)
    table = folder / "table.parquet"
    parquet.write_table(pyarrow.table({"src": [s for s, _ in PAIRS] * 50, "tgt": [t for _, t in PAIRS] * 50}), table)
    lines = b"".join(src.encode() + b"\n" for src, _ in PAIRS)
    (folder / "lines.tgt").write_bytes(lines)
    found = []
    for name, content, config, spoilers in (
        ("lines.txt", lines, lambda p: TextCorpus(src=p, tgt=folder / "lines.tgt"), [spoilt_bytes]),
        ("pairs.tsv", tsv, lambda p: TsvCorpus(path=p), [spoilt_bytes]),
        ("pairs.csv", csv, lambda p: CsvCorpus(path=p), [spoilt_bytes]),
        ("pairs.jsonl", jsonl, lambda p: JsonLinesCorpus(path=p), [spoilt_lines(spoilt_json), spoilt_bytes]),
        ("pairs.tsv.gz", gzip.compress(tsv * 50), lambda p: TsvCorpus(path=p), [spoilt_bytes]),
        ("pairs.tsv.zst", zstandard.compress(tsv * 50), lambda p: TsvCorpus(path=p), [spoilt_bytes]),
        ("pairs.parquet", table.read_bytes(), lambda p: ParquetCorpus(path=p), [spoilt_bytes]),
    ):
        path = folder / f"corpus {name}"
        path.write_bytes(content)

        found.append(Target(name, path, spoilers, partial(_read_corpus, config(path), folder)))
    return found


def _read_corpus(corpus: CorpusConfig, folder: Path) -> None:
    for policy in get_args(Policy):
        for _ in corpus.read(folder, policy, ReadCounts()):
            pass


def _rest(folder: Path) -> list[Target]:
    """The journal of a job, and recipes."""
    output, identity = folder / "out", {"input": "abc", "search": {"kind": "beam", "size": 5}}
    with open_job(output, identity) as job:
        job.commit(b"one\n", 1)
        job.commit(b"two\n", 1)
    part = next(path for path in folder.iterdir() if path.name.startswith("out") and path.name.endswith("part"))
    written = part.read_bytes()

    def take_up() -> None:
        part.write_bytes(written)
        with open_job(output, identity) as job:
            assert 0 <= job.lines <= 2**53

    journal = folder / "out.journal"
    found = [Target("journal", journal, [spoilt_lines(spoilt_json), spoilt_bytes], take_up)]
    whole = {
        "run": "run",
        "data": {"train": [{"kind": "tsv", "path": "pairs.tsv", "weight": 0.5}], "holdout": 2},
        "text": {"src": TOKENIZERS["bpe"], "tgt": TOKENIZERS["sentencepiece"]},
        "model": {**SIZES, "positions": {"kind": "rope"}, "encoder_attention": {"kind": "truncated", "left": 3}},
        "objective": {"noise": [{"kind": "drop", "rate": 0.1}], "consistency": "simcut"},
        "schedule": {"kind": "cosine", "peak": 1e-3, "warmup": 5},
        "training": {"stop_after": "3e", "workers": 1, "ema": 0.9},
        "validation": {"every": "1e", "metrics": ["exact"], "best": "exact"},
    }
    path = folder / "recipe.yaml"
    path.write_text(json.dumps(whole))
    found.append(Target("recipe", path, [spoilt_json], lambda: load_config(Recipe, path)))
    text = folder / "recipe, its text.yaml"
    text.write_text(dump_config(Recipe.model_validate(whole)))
    found.append(Target("recipe, its text", text, [spoilt_bytes], lambda: load_config(Recipe, text)))
    return found
