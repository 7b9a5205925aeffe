"""The equations: one equation, one function. No modules, no configuration, no randomness that is not passed in."""
