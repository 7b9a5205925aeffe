"""What the addresses under /v1 take and give; the OpenAPI description is made of these."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Words = Annotated[list[Annotated[str, Field(min_length=1)]], Field(max_length=32)]
Name = Annotated[str, Field(max_length=64, pattern="^[a-z0-9_]+$")]


class Taken(BaseModel):
    """What comes in: unknown keys and values of another type are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Given(BaseModel):
    """What goes out: every key that has a default may be missing."""


class SearchSettings(Taken):
    """Settings of a search; what is left out is the model's own. None of them names a file."""

    kind: Name | None = None
    """greedy, beam, sample, mbr or speculative; refine for a model that writes all at once."""
    size: int | None = Field(default=None, ge=1)
    """Beams of the kind beam."""
    length_factor: float | None = Field(default=None, gt=0, le=100)
    """Length of outputs relative to the search's own."""
    length_penalty: Name | dict[Name, float | Name] | None = None
    """What log p of a finished output is divided by, such as {"kind": "power", "alpha": 1}."""
    max_length: int | None = Field(default=None, ge=0)
    """Most tokens of an output."""
    samples: int | None = Field(default=None, ge=1)
    """Samples of the kinds sample and mbr."""
    temperature: float | None = Field(default=None, ge=0.001, le=1000)
    """Of the kinds sample and mbr."""
    top_k: int | None = Field(default=None, ge=0, le=2**31)
    """Of the kinds sample and mbr: only the k most probable tokens; 0: all."""
    top_p: float | None = Field(default=None, gt=0, le=1)
    """Of the kinds sample and mbr: only the most probable tokens that together have this probability."""
    seed: int | None = Field(default=None, ge=-(2**63), le=2**63 - 1)
    """Of the kinds sample and mbr."""
    drafter: Literal["jacobi", "input", "own"] | None = None
    """What drafts for the kind speculative."""
    passes: int | None = Field(default=None, ge=1)
    """Of the kind refine."""
    length_beam: int | None = Field(default=None, ge=1)
    """Of the kind refine: lengths that are tried at once."""
    beam: int | None = Field(default=None, ge=1)
    """Of the kind refine, for models of the kind ctc."""


class Asked(Taken):
    """What all requests have."""

    model: str | None = None
    """Name of a model; default: the first one."""
    api_key: str | None = None
    """The key of the client, if the server wants one; the header `Authorization: Bearer` works as well."""


class TranslateRequest(Asked):
    """Texts, and what is wanted of their outputs."""

    texts: list[str]
    """The texts to translate."""
    nbest: int = Field(default=1, ge=1, le=100)
    """How many outputs of each text."""
    alignment: bool = False
    """Return how much each output token attended to each source token."""
    likely: int = Field(default=0, ge=0, le=50)
    """Return so many of the most probable tokens of each place."""
    prefixes: list[str] | None = None
    """The output of each text begins with this."""
    prefix_tokens: list[list[str]] | None = None
    """The output of each text begins with these tokens, as `tokens` of an answer has them; the last may be `</s>`."""
    required: Annotated[list[Words], Field(max_length=1024)] | None = None
    """The output of each text contains these."""
    forbidden: Words = []
    """No output contains one of these."""
    search: SearchSettings = SearchSettings()
    """How outputs are searched for."""


class ScoreRequest(Asked):
    """Pairs whose log-probability is wanted."""

    pairs: list[Annotated[list[str], Field(min_length=2, max_length=2)]]
    """A source and a target each."""


class EmbedRequest(Asked):
    """Texts whose vectors are wanted."""

    texts: list[str]
    pooling: Literal["mean", "first", "tokens"] = "mean"
    """The mean of a text's states, the first one, or a vector for each token."""
    normalize: bool = False
    """Vectors of length 1."""


class SeeRequest(Asked):
    """A text whose computation is looked into."""

    text: str
    compare: str | None = None
    """Name of a second model."""
    search: SearchSettings = SearchSettings()
    """How the output is searched for."""


class LikelyToken(Given):
    """A token that could stand at a place."""

    token: str
    probability: float


class CopiedToken(Given):
    """That a token is a copy of a source token."""

    src: int
    share: float


class TranslationOutput(Given):
    """One output of a text, as `qkv translate --json` writes it."""

    text: str
    score: float
    tokens: list[str]
    token_scores: list[float]
    """log p of each token, and of END if the output ended by itself."""
    truncated: bool
    """Whether the source or the output was cut."""
    parts: int
    """In how many parts a long text was translated."""
    split_at: str | None
    src_tokens: list[str]
    """The source as the model read it, END included."""
    unknown: list[str]
    """Words of the source that are not in the model's vocabulary."""
    alternatives: list["TranslationOutput"]
    """The rest of the n-best."""
    alignment: list[list[float]] | None = None
    """`alignment[token][src_token]`"""
    passes: int | None = None
    copied: list[CopiedToken | None] | None = None
    likely: list[list[LikelyToken]] | None = None
    """The most probable tokens of each place, that of END included, best first."""


class TranslateResponse(Given):
    """The outputs of each text."""

    model: str
    engine: str
    """What has run the model: torch, ctranslate2 or onnxruntime."""
    seconds: float
    """From the request to this answer, in the server."""
    translations: list[TranslationOutput]


class PairScored(Given):
    """log p of a target, as `qkv score --json` writes it."""

    score: float
    per_token: float
    tokens: list[str]
    token_scores: list[float]


class ScoreResponse(Given):
    """The score of each pair."""

    model: str
    seconds: float
    scores: list[PairScored]


class EmbedResponse(Given):
    """The vector of each text; with the pooling `tokens`, the tokens and their vectors."""

    model: str
    seconds: float
    vectors: list[list[float]] | None = None
    tokens: list[list[str]] | None = None
    token_vectors: list[list[list[float]]] | None = None


class SeeResponse(Given):
    """What the page of `qkv see` holds; `web/src/data/record.ts` has the type of a record."""

    format: int
    records: list[dict[str, Any]]


class ModelInfo(Given):
    """A model of the server."""

    name: str
    source: str
    source_name: str
    target: str
    target_name: str
    kind: str
    """The kind of model, such as transformer."""
    decoder: str
    """The kind of decoder, such as autoregressive or ctc."""
    left_to_right: bool
    """Whether it writes token by token: only then can it be streamed, scored, and asked for likely tokens."""
    attends: bool
    """Whether it tells what its words are aligned with."""
    searches: list[str]
    """Kinds of search that suit it."""
    search: dict[str, Any]
    """The settings of its default search."""


class LimitsInfo(Given):
    """What a client may ask for."""

    body_bytes: int
    text_characters: int
    texts: int
    pieces: int
    alternatives: int
    beam: int
    passes: int
    see_characters: int
    seconds: float


class ServerInfo(Given):
    """What a page needs to know."""

    version: str
    ready: bool
    """Whether a worker has its models loaded; a request before that waits."""
    key_required: bool
    limits: LimitsInfo
    file_formats: list[str]
    """What /translate_file takes, such as `.txt`."""
    models: list[ModelInfo]


class ErrorAnswer(Given):
    """Why there is no answer."""

    error: str
    request_id: str | None = None
