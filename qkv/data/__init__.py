"""Files of pairs -> a prepared store on disk -> batches in an order that depends on (seed, epoch) alone."""
