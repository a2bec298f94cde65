"""Choosing layouts: `choose`. `model/` states the problem, `search/` solves it, `proof/` checks what it claims."""
