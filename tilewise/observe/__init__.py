"""Seeing: plans as text before they run, profiles of what ran."""
