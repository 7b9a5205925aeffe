"""How sequences come out of a model. `qkv.search.kinds` registers every kind of search."""
