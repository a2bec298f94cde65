"""What goes through tables of dicts, written in the Python that is compiled. In: arrays. Out: entries, tables.

A table has a power of two of places, less than half of them used: -1 is free, -2 was an entry. The caller says which
hash a key has; equal hashes lie behind each other.
"""

from __future__ import annotations


def find(table, used, columns, key, hashed):  # type: ignore[no-untyped-def]
    """The entry of a key, or -1."""
    if used == 0:
        return -1
    mask = len(table) - 1
    at = hashed & mask
    entry = int(table[at])
    while entry != -1:
        if entry >= 0:
            same = True
            for column, part in zip(columns, key):  # noqa: B905
                if column[entry] != part:
                    same = False
            if same:
                return entry
        at = (at + 1) & mask
        entry = int(table[at])
    return -1


def enter(table, hashed, entry):  # type: ignore[no-untyped-def]
    mask = len(table) - 1
    at = hashed & mask
    while table[at] >= 0:
        at = (at + 1) & mask
    table[at] = entry
    return 0


def leave(table, hashed, entry):  # type: ignore[no-untyped-def]
    mask = len(table) - 1
    at = hashed & mask
    while table[at] != entry:
        at = (at + 1) & mask
    table[at] = -2
    return 0


def fill(table, hashes, used):  # type: ignore[no-untyped-def]
    """Enter all entries."""
    mask = len(table) - 1
    for entry in range(used):
        at = int(hashes[entry]) & mask
        while table[at] >= 0:
            at = (at + 1) & mask
        table[at] = entry
    return 0


def squeeze(table, hashes, alive, used, columns):  # type: ignore[no-untyped-def]
    """Move entries to the places of those that are gone."""
    count = 0
    for entry in range(used):
        if alive[entry]:
            for column in columns:
                column[count] = column[entry]
            hashes[count] = hashes[entry]
            alive[count] = True
            count += 1
    for at in range(len(table)):
        table[at] = -1
    mask = len(table) - 1
    for entry in range(count):
        at = int(hashes[entry]) & mask
        while table[at] >= 0:
            at = (at + 1) & mask
        table[at] = entry
    return 0
