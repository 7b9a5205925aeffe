"""An evaluation as JSON, as tables and as one HTML page."""
