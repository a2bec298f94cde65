"""The same program on the same data gives the same bits: programs, and runs of them in this process and in new ones."""
