"""The command line: one thin verb per file. Nothing heavy is imported before a verb runs."""

from qkv.cli.app import main

__all__ = ["main"]
