"""HTML: what of a page is translated, and where its tags go."""
