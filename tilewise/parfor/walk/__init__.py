"""The walk of a loop's source: what each place reads and writes. In: Python's syntax tree and values at entry.

Out: events.

`values.py` says what is known of a value, `places/` which memory a name or a subscript is, `exprs.py` follows
expressions, `calls/` calls, `statements.py` and `loops.py` the rest; `record.py` keeps what they found.
"""
