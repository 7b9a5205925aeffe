"""A recipe: everything that determines a run, in one typed tree."""

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator

from qkv.config import Config, ExtensibleConfig, Period
from qkv.config.base import WRITTEN_BY_QKV
from qkv.core.devices import DeviceName
from qkv.core.errors import ConfigError, UsageError
from qkv.data.config import BatchConfig, PairsConfig
from qkv.data.tasks import AnyData
from qkv.evaluation.metrics.registry import METRICS, MetricName
from qkv.models.config import Seq2SeqConfig, models
from qkv.models.kinds import AnyModel
from qkv.models.transformer.config import TransformerConfig
from qkv.objectives.build import learning_problem, objective_problem, packing_problem
from qkv.objectives.teacher_forcing import ObjectiveConfig
from qkv.search.default import search_problem
from qkv.search.kinds import AnySearch
from qkv.text import TextConfig
from qkv.training.optimizers import AdamWConfig, AnyOptimizer, optimizers
from qkv.training.outputs import outputs
from qkv.training.schedules import AnySchedule, InverseSqrtConfig
from qkv.training.step.compiled import Compile


class TrainingConfig(Config):
    """The loop. Periods are updates (500u), target tokens (2Mt), epochs (3e) or time (10m)."""

    stop_after: Period = Period.parse("10e")
    """When the run is finished."""
    accumulate: int = Field(default=1, ge=1)
    """Batches whose gradients are accumulated into one update."""
    device: DeviceName = "auto"
    """Where the model is trained: auto (the accelerator if there is one, else the CPU), cpu, cuda, cuda:N, mps or
    xpu."""
    precision: Literal["fp32", "bf16", "fp16", "tf32", "auto"] = "fp32"
    """bf16: matrix products in bfloat16, weights and sums in float32; twice as fast on CPUs that have it (AVX512_BF16).
    fp16: the same in float16, with a loss that is scaled so that small gradients do not vanish. tf32: products of
    float32 numbers cut to 19 bits, on CUDA devices that have it. auto: bf16 if the device has instructions for it, else
    fp32; a resumed run keeps what it started with."""
    compile: Compile = "off"
    """Whether torch.compile writes the code of training: layers: of each layer of the Transformer; all: of the whole
    model, but not of its loss. The first updates take a minute or more, and results differ by rounding."""
    workers: int | Literal["auto"] = Field(default=1)
    """Processes on this machine that share each batch, at most one per core (or QKV_MAX_WORKERS, an environment
    variable); auto: one per core or accelerator, or, for a resumed run, as many as it started with. Each draws its own
    dropout and noise; without these the number of workers changes results only by rounding."""
    sharding: Literal["none", "full"] = "none"
    """full: each process holds a part of the weights, gradients and moments (FSDP), and the layers are put together one
    by one as they are used; for models that do not fit on one device. none: each holds all of them."""
    activation_checkpointing: bool = False
    """Keep only the input of each layer for the backward pass, and compute the layer again there: less memory, about a
    third more time."""
    timeout: int = Field(default=1800, ge=1)
    """Seconds without an answer after which another process is lost: its machine or network has failed."""
    threads: int | None = Field(default=None, ge=1, le=1024)
    """Threads of each worker; default: the cores divided among the workers."""
    ema: float | None = Field(default=None, gt=0, lt=1)
    """Decay of a moving average of the weights, which is then validated and saved as the model; null: none."""
    save_every: Period = Period.parse("10m")
    """How often a checkpoint is written, besides at each validation, at the end and on a signal."""
    keep_last: int = Field(default=3, ge=1)
    """Number of newest checkpoints to keep."""
    keep_best: int = Field(default=1, ge=0)
    """Number of best validated checkpoints to keep in addition."""
    max_bad_updates: int = Field(default=10, ge=1)
    """Stop after this many updates in a row whose loss or gradient is not finite."""

    @model_validator(mode="after")
    def _workers_positive(self) -> "TrainingConfig":
        if self.workers != "auto" and self.workers < 1:
            raise ValueError("workers must be auto or at least 1")
        return self


def _greedy_unless_said(value: Any) -> Any:
    return {"kind": "greedy", **value} if isinstance(value, dict) and "kind" not in value else value


class ValidationConfig(Config):
    """What is measured on the dev data during training."""

    every: Period = Period.parse("1e")
    """How often."""
    metrics: list[MetricName] = Field(default_factory=list)
    """Scores of the output, besides the loss."""
    best: Literal["loss"] | MetricName = "loss"
    """The score by which the best model is chosen."""
    language: str | None = None
    """Language of the targets, such as de; bleu_tok_lc tokenises by its rules."""
    patience: int | None = Field(default=None, ge=1)
    """Stop after this many validations without a better score; null: never."""
    samples: int = Field(default=5, ge=0)
    """Outputs written to samples/ at each validation."""
    attention_samples: int = Field(default=2, ge=0, le=50)
    """Dev pairs whose cross-attention is written to attention/ at each validation, for `qkv see RUN`; 0: none."""
    max_sources: int | None = Field(default=None, ge=1)
    """Decode only this many dev sources (evenly spread); null: all. The loss always uses all."""
    search: Annotated[AnySearch | None, BeforeValidator(_greedy_unless_said)] = None
    """The search whose outputs `metrics` measure; null: greedy, or refine for a non-autoregressive decoder.
    With no kind, the keys are those of greedy."""

    @model_validator(mode="after")
    def _can_be_measured(self) -> "ValidationConfig":
        if self.best != "loss" and self.best not in self.metrics:
            raise ValueError(f"best is {self.best}, which must then also be in metrics")
        for name in self.metrics:
            if METRICS[name].needs_language:
                if self.language is None:
                    raise ValueError(f"{name} needs the language of the targets: give validation.language, such as de")
                try:
                    METRICS[name].for_language(self.language)
                except UsageError as error:
                    raise ValueError(f"language: {error}, or leave {name} out of metrics") from error
        return self

    def scored_by(self) -> dict[str, Any]:
        """Everything that determines the score by which the best model is chosen; other values give another score."""
        return self.model_dump(mode="json", include={"best", "language", "max_sources", "search"})

    def can_compare(self, scored_by: dict[str, Any] | None) -> bool:
        """Whether a score that was `scored_by` these settings is of the same kind; the loss does not depend on them."""
        if scored_by is None:
            return False
        return scored_by.get("best") == self.best == "loss" or _as_written_now(scored_by) == self.scored_by()


def _as_written_now(scored_by: dict[str, Any]) -> dict[str, Any]:
    """The same settings if an earlier version wrote them, with the keys that a search has now."""
    try:
        parsed = ValidationConfig.model_validate({"search": scored_by.get("search")}, context=WRITTEN_BY_QKV)
    except ConfigError:  # it is no longer known, so it is another one
        return scored_by
    return {**scored_by, "search": parsed.scored_by()["search"]}


class Recipe(ExtensibleConfig):
    """A complete run: the keys of a recipe file, as typed objects.

    Examples:
        >>> from qkv import Recipe
        >>> recipe = Recipe(
        ...     data={"train": {"kind": "tsv", "path": "train.tsv"}, "holdout": 100},
        ...     text={"shared": "char"},
        ...     model={"d_model": 64, "num_heads": 4},
        ... )
        >>> recipe.model.d_model, recipe.model_copy(update={"seed": 2}).seed
        (64, 2)
    """

    run: Path = Path("runs/default")
    """The folder that the run writes to."""
    seed: int = Field(default=1, ge=0, le=2**63 - 1)
    """Seeds the initial weights, the order of the data, dropout and noise."""
    data: AnyData
    """Training, dev and test data."""
    text: TextConfig = TextConfig()
    """The tokenizers."""
    tokenizers: Path | None = None
    """Folder of existing tokenizers (of qkv tokenizer train, or a run's tokenizer/); null: train new ones."""
    start_from: Path | None = None
    """Folder of a model or of a run to initialise weights and tokenizers from; null: start from scratch."""
    batch: BatchConfig = BatchConfig()
    """How pairs are batched."""
    model: AnyModel = TransformerConfig()
    """The model."""
    objective: ObjectiveConfig = ObjectiveConfig()
    """What is minimised."""
    optimizer: AnyOptimizer = AdamWConfig()
    """The optimiser."""
    schedule: AnySchedule = InverseSqrtConfig()
    """The learning rate over the run."""
    training: TrainingConfig = TrainingConfig()
    """The loop."""
    validation: ValidationConfig = ValidationConfig()
    """What is measured on the dev data."""

    @model_validator(mode="before")
    @classmethod
    def _tell_the_data(cls, recipe: Any) -> Any:
        """Keys that model and data share need to be given once, to the model."""
        model, data = (recipe.get(key) for key in ("model", "data")) if isinstance(recipe, dict) else (None, None)
        if not (isinstance(model, dict) and isinstance(data, dict) and model.get("kind") in models.names()):
            return recipe
        told = {key: model[key] for key in models[model["kind"]].told_to_data if key in model}
        return {**recipe, "data": {**told, **data}} if told else recipe

    @model_validator(mode="after")
    def _draft_fits(self) -> "Recipe":
        if not isinstance(self.model, Seq2SeqConfig) or self.model.draft is None or not self.model.draft.frozen:
            return self
        if self.start_from is None:
            raise ValueError("model.draft needs an existing model: give start_from, or draft.frozen: false")
        if self.optimizer.weight_decay:
            raise ValueError("optimizer.weight_decay would change the frozen model: set it to 0, or frozen: false")
        return self

    @model_validator(mode="after")
    def _risk_refines(self) -> "Recipe":
        if self.objective.risk is not None and self.start_from is None:
            raise ValueError("objective.risk refines a model that is trained already: give start_from")
        return self

    @model_validator(mode="after")
    def _one_average(self) -> "Recipe":
        if self.training.ema is not None and self.optimizer.averages:
            raise ValueError(f"optimizer {self.optimizer.kind} averages the weights already; leave out training.ema")
        return self

    @model_validator(mode="after")
    def _can_be_sharded(self) -> "Recipe":
        changed = self.training.sharding == "full" or self.training.activation_checkpointing
        if changed and self.training.compile != "off":
            raise ValueError("training.compile goes with neither sharding nor activation_checkpointing; leave one out")
        if self.training.sharding == "none":
            return self
        if not self.optimizer.shards:
            raise ValueError(
                f"training.sharding: optimizer {self.optimizer.kind} cannot update a sharded model; use "
                f"{' or '.join(kind for kind in optimizers.names() if optimizers[kind].shards)}, or sharding none"
            )
        if self.objective.risk is not None:
            raise ValueError("training.sharding: objective.risk decodes while it learns; use sharding none")
        return self

    @model_validator(mode="after")
    def _parts_fit(self) -> "Recipe":
        if problem := learning_problem(self.model, self.data):
            raise ValueError(problem)
        if problem := self.data.text_problem(self.text.given):
            raise ValueError(problem)
        if self.batch.curriculum is not None and not isinstance(self.data, PairsConfig):
            raise ValueError(
                f"batch.curriculum is for pairs of texts, not for data.kind {self.data.kind}; leave it out"
            )
        if problem := self.model.data_problem(*self.data.longest, self.text.shared is not None):
            raise ValueError(problem)
        measured = bool(self.validation.metrics) or self.validation.patience is not None
        if measured and not self.data.has_dev:
            raise ValueError("validation.metrics and validation.patience need dev data: give data.dev or data.holdout")
        if problem := objective_problem(self.objective, self.model, self.data.kind):
            raise ValueError(problem)
        if problem := packing_problem(self.objective, self.data):
            raise ValueError(problem)
        learned = [loss.kind for loss in self.objective.attention if loss.needs_alignments]
        corpora = self.data.train if isinstance(self.data, PairsConfig) else ()
        if learned and not any(corpus.alignment_file for corpus in corpora):
            raise ValueError(f"objective.attention {learned[0]} needs alignments: give data.train.alignments, a file")
        return self

    @model_validator(mode="after")
    def _validation_fits(self) -> "Recipe":
        validation, model = self.validation, self.model
        if validation.metrics and (model.asked not in outputs or self.data.kind not in outputs[model.asked].data):
            raise ValueError(
                f"validation.metrics: model.kind {model.kind} has no outputs to compare on data.kind {self.data.kind}; "
                "leave it out: the loss is measured always"
            )
        if validation.search is None:
            return self
        if not isinstance(model, Seq2SeqConfig):
            raise ValueError(f"validation.search: model.kind {model.kind} is not searched; leave it out")
        if problem := search_problem(validation.search, model.decoder):
            raise ValueError(f"validation.search: {problem}")
        return self


class SavedRecipe(Recipe):
    """The recipe in the folder of a run, which may come from somebody else: it does not choose what is imported."""

    asks: ClassVar[bool] = True
