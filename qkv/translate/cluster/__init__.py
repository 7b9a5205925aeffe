"""Batch jobs on a Ray cluster: files of any number and size, in shards that are committed one by one."""
