"""The scripts. Each has SIZES, main(size) with its results, and prints some of them when run."""
