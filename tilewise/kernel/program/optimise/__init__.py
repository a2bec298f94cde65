"""Faster programs with the same meaning. The passes are in run.py; here are their names, for settings."""

NAMES = ("inline", "hoist", "loop_order", "loop_threads")
