"""Engines: they run plans and report events; they decide nothing."""
