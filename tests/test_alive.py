"""Sets of weak references that nobody is told of: who is alive is in them, whoever died meanwhile."""

from __future__ import annotations

import gc

from tilewise.alive import LEAST, Alive


class Thing:
    pass


def test_who_is_alive_is_in_it() -> None:
    found = Alive[Thing]()
    kept = [Thing() for _ in range(5)]
    for x in kept:
        found.add(x)
        found.add(x)
        found.add(Thing())  # dies at once, and the next one may have its place
    gc.collect()
    assert {*found} == {*kept} and len([*found]) == 5
    found.discard(kept[0])
    found.discard(kept[0])
    assert {*found} == {*kept[1:]}
    del kept, x
    gc.collect()
    assert not [*found]


def test_the_dead_do_not_pile_up() -> None:
    found = Alive[Thing]()
    kept = []
    for k in range(20 * LEAST):
        things = [Thing() for _ in range(4)]
        for x in things:
            found.add(x)
        if k % 10 == 0:
            kept.append(things[0])
    assert len(found._refs) <= 4 * LEAST + 2 * len(kept)
    assert {*found}.issuperset(kept)


def test_those_that_come_while_it_is_looked_through() -> None:
    found = Alive[Thing]()
    kept = [Thing() for _ in range(3)]
    for x in kept:
        found.add(x)
    more = []
    for _ in found:
        more.append(Thing())
        found.add(more[-1])
    assert len(more) == 3 and {*found} == {*kept, *more}
