"""Calling native code. In: a kernel, then arrays. Out: launches, walks over tiles, parts handed to threads."""
