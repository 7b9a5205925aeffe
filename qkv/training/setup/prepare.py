"""From a recipe's files to tokenizers, prepared data and initial weights; what the run folder holds is reused."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from qkv.core.errors import UsageError
from qkv.core.files import new_folder, verify_folder
from qkv.data.tasks import Store, task_of
from qkv.data.tasks.base import TextPart
from qkv.models.base import Model
from qkv.models.config import ModelConfig
from qkv.models.saved.folder import TOKENIZER, SavedConfig, SavedModel, load_model
from qkv.models.saved.locate import locate_model
from qkv.models.saved.weights import load_weights, named_weights
from qkv.text import TextConfig, TokenizerPair, fingerprint, load_tokenizers
from qkv.training.recipe import Recipe
from qkv.training.run.folder import RunFolder

NEW = ("draft_head.", "length_predictor.", "opening.", "transitions.")
"""Parts that the existing model may lack; they are then initialised from scratch."""
TABLE = "tokens.weight"
GATE = ".output.log_a"
"""The gates of `model.head_gates`."""
ENCODER = "encoder."
"""What a model takes from one of another kind (`Model.starts_from`)."""
MEANING = ("num_heads", "residual", "feed_forward", "positions", "norm_eps")
"""Keys of a model that change what its weights mean, but not always their names and shapes."""


def tokenizers_of(start_from: Path) -> Path:
    """The folder of the model's tokenizers."""
    return locate_model(start_from) / TOKENIZER


def copy_weights(model: Model, recipe: Recipe, prepared: "PreparedData", say: Callable[[str], None]) -> None:
    """Give `model`, that of the recipe, the weights of the one in `start_from`, or of the best of the run there."""
    config, start_from, tokenizers = recipe.model, recipe.start_from, prepared.tokenizers
    assert start_from is not None
    folder = locate_model(start_from)
    saved = load_model(folder)
    if saved.config.model.kind == config.kind or saved.model.kind in model.starts_from:
        _require_same_meaning(config, saved.config.model, start_from)
    if saved.model.kind in model.starts_from:
        _copy_common(model, saved, start_from, tokenizers)
        return
    for own, other in ((tokenizers.src, saved.tokenizers.src), (tokenizers.tgt, saved.tokenizers.tgt)):
        if fingerprint(own) != fingerprint(other):
            raise UsageError(f"start_from {start_from}: has another vocabulary; leave out tokenizers to use its own")
    found, fresh = named_weights(saved.model), named_weights(model)
    kept = {name: weight for name, weight in fresh.items() if _is_new(name) and name not in found}
    wrong = sorted(fresh.keys() ^ (found.keys() | kept.keys()))
    if wrong:
        raise UsageError(
            f"start_from {start_from}: is another kind of model (see {wrong[0]}); make the model keys equal"
        )
    tables = {name: with_new_ids(found[name], fresh[name]) for name in found if name.endswith(TABLE)}
    adapted = model.adapted(saved.model, _numbers_in(saved.config.labels, prepared.saved_config(recipe).labels))
    load_weights(model, found | tables | kept | adapted.weights, folder)
    if adapted.remark:
        say(f"start_from {start_from}: {adapted.remark}")


def _numbers_in(theirs: Sequence[str] | None, ours: Sequence[str] | None) -> list[int] | None:
    """The number in `theirs` of each of our classes; None: they are not the same classes."""
    if theirs is None or ours is None or sorted(theirs) != sorted(ours):
        return None
    numbers = {name: number for number, name in enumerate(theirs)}
    return [numbers[name] for name in ours]


def _require_same_meaning(ours: ModelConfig, theirs: ModelConfig, start_from: Path) -> None:
    """Refuse weights that would fit and compute something else; of a part, its kind counts."""
    for name in MEANING:
        if not (hasattr(ours, name) and hasattr(theirs, name)):
            continue
        own, other = (getattr(part, "kind", part) for part in (getattr(ours, name), getattr(theirs, name)))
        if own != other:
            raise UsageError(
                f"start_from {start_from}: has model.{name} {other}, not {own}; "
                f"give model.{name}={other} to use its weights"
            )


def _is_new(name: str) -> bool:
    """Whether a model may have this parameter although the one that it starts from has not."""
    return name.startswith(NEW) or name.endswith(GATE)


def _copy_common(model: Model, saved: SavedModel, start_from: Path, tokenizers: TokenizerPair) -> None:
    """Give `model` the weights of another kind for the parts that both have, which read the same source."""
    if fingerprint(tokenizers.src) != fingerprint(saved.tokenizers.src):
        raise UsageError(f"start_from {start_from}: has another vocabulary; leave out tokenizers to use its own")
    found, fresh = named_weights(saved.model), named_weights(model)
    common = {name: found[name] for name in fresh if name.startswith(ENCODER) and name in found}
    other = [name for name in fresh if name.startswith(ENCODER) and name not in found]
    other += [name for name in common if fresh[name].shape != found[name].shape]
    if other:
        raise UsageError(f"start_from {start_from}: has other sizes (see {other[0]}); make the model keys equal")
    load_weights(model, fresh | common, start_from)


def with_new_ids(table: Tensor, fresh: Tensor) -> Tensor:
    """`table`, and below it the rows of `fresh` that it lacks: ids beyond the vocabulary, such as the blank of CTC."""
    return torch.cat([table, fresh[len(table) :]]) if table.shape[1] == fresh.shape[1] else table


CountingFactory = Callable[[str], Callable[[int, int | None], None]]
"""From a description of the work to a function that is called with (done, total or None)."""


@dataclass(frozen=True)
class PreparedData:
    """The prepared data of a run."""

    tokenizers: TokenizerPair
    train: Store
    dev: Store | None

    @property
    def identity(self) -> str:
        """The fingerprint that a resumed run checks: the training data and their token ids."""
        tokenizers = [fingerprint(self.tokenizers.src), fingerprint(self.tokenizers.tgt)]
        return hashlib.sha256("/".join([self.train.fingerprint, *tokenizers]).encode()).hexdigest()

    def saved_config(self, recipe: Recipe) -> SavedConfig:
        """What a model that was trained on these data is saved with."""
        facts = task_of(recipe.data).facts(self.train)
        return SavedConfig(imports=recipe.imports, model=recipe.model, text=recipe.text, **facts)


def prepare(recipe: Recipe, run: RunFolder, counting: CountingFactory) -> PreparedData:
    """Train the tokenizers if the run has none, and put the usable examples into its data folder."""
    task = task_of(recipe.data)
    parts = task.parts(counting("Reading"))
    tokenizers = recipe.model.tokenizers(_tokenizers(recipe, parts["train"], run, counting))
    stores = task.prepare(parts, tokenizers, run.path / "data", counting(f"Preparing {task.unit}"))
    require_fitting(recipe, stores)
    return PreparedData(tokenizers, stores["train"], stores.get("dev"))


def require_fitting(recipe: Recipe, stores: Mapping[str, Store]) -> None:
    """Refuse a model whose sizes do not fit what was found in the data."""
    if problem := recipe.model.misfit(stores["train"], stores.get("dev")):
        raise UsageError(problem)


def open_prepared(recipe: Recipe, run: RunFolder) -> PreparedData:
    """Open what `prepare` made before, without reading the original files; raises CorruptFolder if it is missing."""
    verify_folder(run.tokenizer)
    tokenizers = recipe.model.tokenizers(recipe.text.load(run.tokenizer))
    task = task_of(recipe.data)
    train = task.open(run.train_data)
    return PreparedData(tokenizers, train, task.open(run.dev_data) if recipe.data.has_dev else None)


def _tokenizers(recipe: Recipe, train: TextPart, run: RunFolder, counting: CountingFactory) -> TokenizerPair:
    """Those of the run, or else those that the recipe asks for. Damaged ones were removed when the run was opened."""
    if run.tokenizer.exists():
        return recipe.text.load(run.tokenizer)
    return make_tokenizers(recipe, train, run.tokenizer, counting)


def make_tokenizers(recipe: Recipe, train: TextPart, folder: Path, counting: CountingFactory) -> TokenizerPair:
    """In `folder`, a copy of the tokenizers that the recipe names, or new ones."""
    if recipe.tokenizers is None and recipe.start_from is not None:
        existing = tokenizers_of(recipe.start_from)
        pair = load_tokenizers(existing)
        if pair.shared and recipe.text.tgt is not None:
            # A model of texts goes on with labels, which it did not know.
            counting("Training tokenizers")(0, None)
            pair = TokenizerPair(pair.src, recipe.text.tgt.train(train.texts("tgt")))
        else:
            pair = recipe.text.load(existing)
        save_tokenizers(recipe.text, pair, folder)
        return recipe.text.load(folder)
    if recipe.tokenizers is None:
        if recipe.text.given:
            counting("Training tokenizers")(0, None)
        return train_tokenizers(recipe.text, train, folder)
    verify_folder(recipe.tokenizers)
    save_tokenizers(recipe.text, recipe.text.load(recipe.tokenizers), folder)
    return recipe.text.load(folder)


def train_tokenizers(text: TextConfig, train: TextPart, folder: Path) -> TokenizerPair:
    """Learn the tokenizers from the training data and save them."""
    pair = text.train(lambda: train.texts("src"), lambda: train.texts("tgt"))
    save_tokenizers(text, pair, folder)
    return pair


def save_tokenizers(text: TextConfig, pair: TokenizerPair, folder: Path) -> None:
    with new_folder(folder, {"what": "tokenizers"}) as temporary:
        text.save(pair, temporary)
