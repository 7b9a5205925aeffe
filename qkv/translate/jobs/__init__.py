"""Files of any length: worker processes, resumable jobs, distillation, back-translation."""
