"""Choosing layouts. The interface is `choose`; the exact search will stand behind it."""
