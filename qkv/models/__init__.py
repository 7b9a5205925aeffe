"""Models: the contract, their kinds, and the folder that a model is saved in."""
