"""Functions of users inside of compiled loops: what operators with functions run on each block."""
