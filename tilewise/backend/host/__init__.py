"""Backends whose buffers are arrays of this process: what they share. In: steps, arrays. Out: arrays."""
