"""Loops of programs: their forms, what they cost, where their integers go, on several threads."""
