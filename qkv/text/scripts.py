"""Properties of a text by its script."""

import re
from collections.abc import Sequence

UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
"""Thai, Lao, Burmese, Khmer, Japanese, Chinese: there are no spaces between words."""


def mostly_unspaced(texts: Sequence[str]) -> bool:
    """Whether most of the texts are in a script without spaces between words."""
    return 2 * sum(bool(UNSPACED.search(text)) for text in texts) > len(texts)
