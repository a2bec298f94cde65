"""Lengths that masks decide: what they are expected to be, and views before they are known."""
