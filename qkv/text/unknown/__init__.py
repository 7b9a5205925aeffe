"""Words that are in no vocabulary: counted, or copied."""
