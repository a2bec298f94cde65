"""Plans as a worker keeps them: what is the same in every run, and runs that need nothing else."""
