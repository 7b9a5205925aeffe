"""The processes that decode, and the queue in front of them."""
