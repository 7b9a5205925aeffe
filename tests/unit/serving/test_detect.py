"""Languages are detected among those that are served."""

import pytest

from qkv.serving.detect import detect_language


@pytest.mark.parametrize(
    ("text", "among", "language"),
    [
        ("我们明天去北京看朋友。", ("en", "zh-Hans"), "zh-Hans"),
        ("Das ist ein schöner Tag.", ("zh-Hans", "en"), "en"),
        ("Das ist ein schöner Tag.", (), "de"),
        ("Onde está o livro?", ("es", "pt-BR"), "pt-BR"),
        ("anything", ("aa", "qq"), "aa"),
        ("👍", ("es", "en"), "es"),
    ],
)
def test_only_what_is_served_is_found(text: str, among: tuple[str, ...], language: str) -> None:
    assert detect_language(text, among).language == language
