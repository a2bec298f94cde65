"""Evaluating within memory=, block by block (plan/streams.py). `evaluate`: plans, and cells with their values."""
