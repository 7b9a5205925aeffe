"""Everything about one decoded sentence, and the page that shows it."""
