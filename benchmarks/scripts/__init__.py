"""Nine ordinary NumPy scripts as a user would run them: whole processes, memory, and again and again."""
