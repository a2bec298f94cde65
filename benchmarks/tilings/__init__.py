"""A testbed for the exact search: abstract programs (`programs`, `apps`) and costs for them (`costs`)."""
