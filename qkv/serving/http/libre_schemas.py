"""What LibreTranslate's addresses take and give, for the OpenAPI description."""

from typing import Literal

from pydantic import BaseModel, Field


class LibreTranslateRequest(BaseModel):
    """A text, or several."""

    q: str | list[str]
    source: str = Field(examples=["es", "auto"])
    target: str = Field(examples=["en"])
    format: Literal["text", "html"] = "text"
    alternatives: int = Field(default=0, ge=0)
    api_key: str | None = None


class DetectRequest(BaseModel):
    """A text whose language is wanted."""

    q: str | list[str]
    api_key: str | None = None


class DetectedLanguage(BaseModel):
    """A language, and how sure its detection is, from 0 to 100."""

    confidence: float
    language: str


class LibreTranslateResponse(BaseModel):
    """Of a list of texts, each key has a list."""

    translatedText: str | list[str]  # the name is LibreTranslate's
    alternatives: list[str] | list[list[str]] | None = None
    detectedLanguage: DetectedLanguage | list[DetectedLanguage] | None = None


class LanguageInfo(BaseModel):
    """A language that can be translated, and to which."""

    code: str
    name: str
    targets: list[str]


class TranslatedFile(BaseModel):
    """Where the result can be fetched."""

    translatedFileUrl: str


class HealthStatus(BaseModel):
    """Whether the server lives or is ready."""

    status: str
