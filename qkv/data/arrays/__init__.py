"""Arrays in files: `.npz` archives that are read in chunks, and folders of prepared arrays."""
