"""The programs, by family."""
