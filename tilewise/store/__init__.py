"""Where arrays live. `pool`: memory that is used again."""
