"""Ways to run the body of a loop other than by the interpreter: as machine code, or as array expressions."""
