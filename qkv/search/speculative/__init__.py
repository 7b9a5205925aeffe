"""Speculative decoding: a drafter proposes several tokens, the model verifies them in one pass."""
