"""The Extended Neural GPU."""
