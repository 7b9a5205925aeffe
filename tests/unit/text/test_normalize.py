"""The normal form of a text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.core.errors import DataError
from qkv.text.normalize import NormalizeConfig, normalize

KEEP = NormalizeConfig(unicode="none", whitespace="keep")


@pytest.mark.parametrize(
    ("config", "text", "expected"),
    [
        (NormalizeConfig(), "  e\u0301t\u00e9\t\u00a0\n x ", "\u00e9t\u00e9 x"),
        (NormalizeConfig(unicode="NFKC"), "ﬁn Ａ①", "fin A1"),
        (NormalizeConfig(), "ﬁn Ａ①", "ﬁn Ａ①"),
        (NormalizeConfig(lowercase=True), "ÀB ΣΑΣ", "àb σας"),
        (KEEP, " e\u0301\t\n ", " e\u0301\t\n "),
        (NormalizeConfig(whitespace="keep"), " a  b ", " a  b "),
        (NormalizeConfig(), "\u2028 \x1f", ""),
    ],
)
def test_normal_forms(config: NormalizeConfig, text: str, expected: str) -> None:
    assert normalize(text, config) == expected


@given(
    st.text(),
    st.builds(
        NormalizeConfig,
        unicode=st.sampled_from(["none", "NFC", "NFKC"]),
        lowercase=st.booleans(),
        whitespace=st.sampled_from(["keep", "collapse"]),
    ),
)
def test_twice_changes_nothing_more(text: str, config: NormalizeConfig) -> None:
    once = normalize(text, config)
    assert normalize(once, config) == once


@pytest.mark.parametrize("config", [NormalizeConfig(), KEEP])
def test_a_lone_surrogate_is_refused_with_its_place(config: NormalizeConfig) -> None:
    with pytest.raises(DataError, match=r"character 3 is a lone surrogate \(U\+D83D\)"):
        normalize("ab\ud83d", config)
