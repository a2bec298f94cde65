"""Compiled code. In: IR and a key. Out: code in memory, from disk or compiled for this CPU."""
