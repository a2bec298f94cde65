"""A testbed for the layout search: abstract programs (`programs`, `apps`) and their recorded graphs (`graphs`)."""
