"""Faster programs with the same meaning. The passes are in run.py; here are their names, for settings."""

NAMES = (
    "unify", "inline", "conditions", "bit_counts", "hoist", "ranges", "split_names", "aliases", "loop_fusion",
    "loop_blocks", "zeros", "loop_versions", "loop_order", "small_arrays", "terms", "private", "loop_threads",
)  # fmt: skip
