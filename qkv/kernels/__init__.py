"""Faster twins of `qkv.functional`: the same meaning, tested equal to the slow definition in outputs and gradients."""
