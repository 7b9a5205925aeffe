"""Sharded training (FSDP2): each rank holds a part of every tensor. Imported only by runs that shard."""
