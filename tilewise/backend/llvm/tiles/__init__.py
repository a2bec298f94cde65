"""Passes that share cache tiles. In: a `Tiled`, arrays. Out: how long tiles are, the native calls on each, results."""
