"""Bodies that other servers answer with 500."""

import pytest

from qkv.serving.http.bodies import json_object
from qkv.serving.http.errors import ApiError

BAD = {
    "nothing": b"",
    "a list": b"[]",
    "a number": b"1",
    "NaN": b'{"n": NaN}',
    "infinity": b'{"n": -Infinity}',
    "too large": b'{"n": 1e400}',
    "many digits": b'{"n": ' + b"9" * 5000 + b"}",
    "half a character": b'{"q": "\\ud800"}',
    "deep": b"[" * 100_000,
    "no UTF-8": b'{"q": "\xff"}',
    "UTF-16": '{"q": "a"}'.encode("utf-16"),
    "cut": b'{"q": "a',
}


@pytest.mark.parametrize("body", BAD.values(), ids=BAD.keys())
def test_what_is_not_an_object_of_json_is_refused(body: bytes) -> None:
    with pytest.raises(ApiError) as refused:
        json_object(body)
    assert (refused.value.status, refused.value.message) == (400, "Invalid JSON format")


def test_an_object_is_read() -> None:
    assert json_object(b'\xef\xbb\xbf{"q": "a\\u0000", "n": 1.5, "n": -0}') == {"q": "a\0", "n": 0}
