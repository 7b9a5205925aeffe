"""The run folder: its lock, its checkpoints and the state to resume from."""
