"""A translation server: batches across requests, worker processes, and a REST interface."""
