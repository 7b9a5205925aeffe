"""The metrics, by name: BLEU, chrF, TER and error rates."""
