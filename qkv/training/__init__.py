"""The training loop and what it needs: optimiser, schedules, checkpoints, resume, workers."""
