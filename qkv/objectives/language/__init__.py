"""What language models learn: the next token, masked tokens, masked spans."""

from qkv.objectives.language import next_token

__all__ = ["next_token"]
