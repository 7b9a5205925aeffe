"""Random numbers as a function of where the run stands, so that resuming needs no stored generator."""

import hashlib

import torch


def derived_seed(*parts: int | str) -> int:
    """63 bits from the parts; the same on every machine."""
    text = "/".join(str(part) for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def seed_for(*parts: int | str) -> None:
    """Make torch's generator a function of `parts`; dropout, noise and fresh weights draw from it."""
    torch.manual_seed(derived_seed(*parts))
