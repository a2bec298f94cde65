"""Proofs that nothing costs less, and their checker, which imports nothing of the search."""
