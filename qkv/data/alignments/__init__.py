"""Word alignments: the Pharaoh format, alignments in prepared data, and links of words as links of tokens."""
