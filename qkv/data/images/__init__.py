"""Images with labels: where they come from, the store on disk, and batches."""
