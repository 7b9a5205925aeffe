"""A corpus as it is named on a command line: a file whose name says its kind, or what a recipe would say."""

from pathlib import Path
from typing import TypeVar

from qkv.config.base import Config
from qkv.config.load import validate
from qkv.config.parse import YamlProblem, parse_yaml
from qkv.core.errors import UsageError
from qkv.data.readers import AnyCorpus, CorpusConfig, corpora

COMPRESSED = (".gz", ".zst")
Holder = TypeVar("Holder", bound=Config)


class _Given(Config):
    data: AnyCorpus


def corpus_of(given: str) -> CorpusConfig:
    """The corpus for `test.jsonl.gz`, or for `{kind: jsonl, path: test.jsonl.gz, src: de, tgt: en}`."""
    if given.lstrip().startswith("{"):
        return said_as_in_recipe(_Given, given).data
    if (kind := kind_by_name(Path(given))) is not None:
        return validate(_Given, {"data": {"kind": kind, "path": Path(given)}}, given).data
    known = ", ".join(suffix for config in corpora for suffix in config.suffixes)
    raise UsageError(
        f"{given}: the name does not say what kind of file it is ({known}, or compressed); "
        f"say it as in a recipe: '{{kind: tsv, path: {given}}}'"
    )


def names_corpus(given: str) -> bool:
    """Whether `corpus_of` knows what kind of corpus this is."""
    return given.lstrip().startswith("{") or kind_by_name(Path(given)) is not None


def kind_by_name(path: Path) -> str | None:
    """The kind of corpus that files of this name are, as far as their ending says."""
    name = uncompressed_name(path).lower()
    for kind in corpora.names():
        if name.endswith(corpora[kind].suffixes):
            return kind
    return None


def uncompressed_name(path: Path) -> str:
    """`train.tsv` of `train.tsv.gz`."""
    return path.stem if path.suffix.lower() in COMPRESSED else path.name


def said_as_in_recipe(holder: type[Holder], given: str) -> Holder:
    """`given` is YAML; `holder` is a config whose only key, `data`, it is the value of."""
    try:
        data = parse_yaml(given).data
    except YamlProblem as problem:
        raise UsageError(f"{given}: {problem}") from None
    return validate(holder, {"data": data}, given)
