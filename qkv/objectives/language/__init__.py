"""What language models learn: the next token, masked tokens, masked spans."""

from qkv.objectives.language import masked_tokens, next_token, spans

__all__ = ["masked_tokens", "next_token", "spans"]
