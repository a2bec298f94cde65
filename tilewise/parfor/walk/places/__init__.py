"""Places that a loop reads and writes. `memory`: where arrays and containers lie; `subscripts`: the region that a
subscript is; `cells`: subscripts where they are read; `groups`: rows with a label.
"""
