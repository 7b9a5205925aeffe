"""Archives of arrays, read in chunks of rows."""

from pathlib import Path

import numpy as np
import pytest

from qkv.core.errors import DataError
from qkv.data.arrays.npz import npz_array, npz_names, npz_rows, npz_whole


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_an_array_is_read_in_chunks_of_rows(tmp_path: Path, save: object) -> None:
    assert callable(save)
    values = np.arange(70, dtype=np.int16).reshape(10, 7)
    save(tmp_path / "a.npz", values=values, by_columns=np.asfortranarray(values), none=np.zeros((0, 3)))
    path = tmp_path / "a.npz"
    assert sorted(npz_names(path)) == ["by_columns", "none", "values"]
    assert npz_array(path, "values") == ((10, 7), np.dtype(np.int16))
    chunks = list(npz_rows(path, "values", rows=4))
    assert [len(chunk) for chunk in chunks] == [4, 4, 2]
    assert np.array_equal(np.concatenate(chunks), values)
    assert np.array_equal(npz_whole(path, "by_columns"), values)
    assert len(npz_whole(path, "none")) == 0


def test_what_is_no_archive_or_has_no_such_array_is_said_in_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    with pytest.raises(DataError, match=r"a\.npz: no such file"):
        npz_names(path)
    np.savez(path, x=np.arange(3), one=np.array(3), objects=np.array(["a", None], dtype=object))
    with pytest.raises(DataError, match="has no array 'y'; its arrays are 'x', 'one', 'objects'"):
        npz_array(path, "y")
    with pytest.raises(DataError, match="holds Python objects"):
        npz_whole(path, "objects")
    with pytest.raises(DataError, match="is a single value"):
        npz_whole(path, "one")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"is not a whole \.npz file"):
        npz_whole(path, "x")
