"""Plans: what to run, in which order, where. In: a graph. Out: steps that an engine runs in order."""
