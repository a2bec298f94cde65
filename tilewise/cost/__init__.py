"""Predicted time: what work and exchanges cost on a machine."""
