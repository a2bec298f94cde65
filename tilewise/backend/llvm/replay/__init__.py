"""Replay: a run of a traced function repeated as a row of native calls, with addresses filled in."""
