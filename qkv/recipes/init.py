"""From files to a recipe that fits them."""

from collections.abc import Iterator
from pathlib import Path

from qkv.config import validate
from qkv.core.errors import DataError
from qkv.core.progress import Counting
from qkv.data.config import PairsConfig
from qkv.data.lines import ReadCounts
from qkv.recipes.compose import compose
from qkv.recipes.discover import Found, discover
from qkv.recipes.profile import profile_pairs

FEWEST = 10
PROGRESS_EVERY = 10_000


def new_recipe(data: list[Path], progress: Counting = lambda done, total: None) -> tuple[str, Path]:
    """A recipe for the pairs in `data` (a table, two text files, or a folder), and the run folder that it names."""
    found = discover(data)
    profile = profile_pairs(_pairs(found, progress))
    if profile.pairs < FEWEST:
        raise DataError(f"{found.root}: has {profile.pairs} pair(s), too few to learn from; give at least {FEWEST}")
    run = Path("runs", found.name)
    return compose(found, profile, run), run


def _pairs(found: Found, progress: Counting) -> Iterator[tuple[str, str]]:
    config = validate(PairsConfig, {"root": str(found.root), "train": found.train}, "data")
    for number, pair in enumerate(config.train[0].read(config.root, "error", ReadCounts()), start=1):
        if number % PROGRESS_EVERY == 0:
            progress(number, None)
        yield pair.src, pair.tgt
