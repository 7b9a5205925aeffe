"""What everything else stands on: errors, files, progress, shapes, plugins."""
