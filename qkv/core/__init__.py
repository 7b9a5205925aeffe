"""What everything else builds on: errors, files, progress, shapes, plugins."""
