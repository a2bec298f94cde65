"""The walk of a loop's source: what each place reads and writes. In: Python's syntax tree and values at entry.

Out: events.

`values.py` says what is known of a value, `memory.py` where arrays and containers lie, `subscripts.py` and `exprs.py`
follow expressions, `calls.py` and `library.py` calls, `statements.py` statements; `record.py` keeps what they found.
"""
