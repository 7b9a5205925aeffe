"""ByteNet."""
