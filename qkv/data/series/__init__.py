"""Time series: where they come from, the store on disk, and batches of windows."""
