"""How good the output is: BLEU, chrF, error rates of sequences and of their tokens."""
