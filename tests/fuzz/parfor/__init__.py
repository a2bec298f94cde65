"""Random loops: what the analysis of parfor says against what brute force finds (`python -m tests.fuzz.parfor`)."""
