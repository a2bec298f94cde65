"""`tilewise.records.dataclass` behaves as the standard library's: every row on both."""

import copy
import dataclasses
import pickle
from dataclasses import field
from typing import Any, ClassVar

import pytest

from tilewise import records


def family(dataclass: Any) -> Any:
    """Classes of every sort, made by one of the two."""

    @dataclass(frozen=True)
    class Point:
        x: int
        y: float = 2.0
        tags: tuple[str, ...] = ()
        note: str = field(default="", compare=False, repr=False)
        kinds: ClassVar[int] = 3

        def norm(self) -> float:
            return self.x + self.y

    @dataclass(frozen=True)
    class Deep(Point):
        z: int = 0

        def __post_init__(self) -> None:
            if self.z < 0:
                raise ValueError("below")

    @dataclass
    class Bag:
        items: list[int] = field(default_factory=list)
        count: int = field(default=0, init=False)

    @dataclass(frozen=True, eq=False)
    class Unequal:
        x: int

    @dataclass(frozen=True)
    class Own:
        x: int

        def __repr__(self) -> str:
            return "own"

        def __hash__(self) -> int:
            return 7

    @dataclass(frozen=True)
    class Empty:
        pass

    @dataclass(frozen=True, kw_only=True)
    class Named:
        size: int = field(default=4, metadata={"unit": "bytes"})
        parts: list[int] = field(default_factory=list)
        last: int

    @dataclass(frozen=True, kw_only=True)
    class Mixed(Point):
        w: int

    return {c.__name__: c for c in (Point, Deep, Bag, Unequal, Own, Empty, Named, Mixed)}


OURS, THEIRS = family(records.dataclass), family(dataclasses.dataclass)


def outcome(ask: Any, classes: Any) -> Any:
    try:
        return ask(**classes)
    except Exception as error:
        return type(error), str(error)


def matched(value: Any, Point: Any) -> Any:
    match value:
        case Point(x, y):
            return x, y
    return None


ROWS = {
    "repr": lambda Point, **_: repr(Point(1)),
    "repr in repr": lambda Bag, **_: repr(Bag([1])),
    "keywords": lambda Point, **_: repr(Point(y=1, x=3)),
    "too few": lambda Point, **_: Point(),
    "equal": lambda Point, **_: (Point(1) == Point(1, 2.0), Point(1) == Point(2), Point(1) == 1, Point(1) != Point(1)),
    "not compared": lambda Point, **_: Point(1, note="a") == Point(1, note="b"),
    "nan": lambda Point, **_: Point(1, float("nan")) == Point(1, float("nan")),
    "derived": lambda Point, Deep, **_: (Deep(1) == Point(1), Deep(1, z=2), Deep(1, z=2).norm()),
    "hash": lambda Point, **_: (hash(Point(1)), hash(Point(1, note="b"))),
    "unhashable": lambda Bag, **_: hash(Bag()),
    "own hash and repr": lambda Own, **_: (hash(Own(1)), repr(Own(1)), Own(1) == Own(1)),
    "identity": lambda Unequal, **_: (Unequal(1) == Unequal(1), len({Unequal(1), Unequal(1)})),
    "frozen": lambda Point, **_: setattr(Point(1), "x", 2),
    "frozen, another name": lambda Point, **_: setattr(Point(1), "other", 2),
    "frozen, deleted": lambda Point, **_: delattr(Point(1), "x"),
    "not frozen": lambda Bag, **_: setattr(Bag(), "count", 2),
    "own lists": lambda Bag, **_: (Bag().items is Bag().items, Bag(items=[1]).items, Bag().count, Bag.count),
    "not given": lambda Bag, **_: Bag(count=1),
    "after": lambda Deep, **_: Deep(1, z=-1),
    "fields": lambda Deep, **_: [(f.name, f.default, f.compare) for f in dataclasses.fields(Deep)],
    "replace": lambda Deep, **_: repr(dataclasses.replace(Deep(1, z=2), x=4)),
    "replace, wrong": lambda Deep, **_: dataclasses.replace(Deep(1, z=2), z=-4),
    "asdict": lambda Deep, **_: dataclasses.asdict(Deep(1, tags=("a",))),
    "is": lambda Point, Bag, **_: (dataclasses.is_dataclass(Point), dataclasses.is_dataclass(Bag())),
    "match": lambda Point, Deep, **_: (Point.__match_args__, matched(Deep(1), Point), matched(3, Point)),
    "default of the class": lambda Point, **_: (Point.y, Point.note, Point.kinds, hasattr(Point, "x")),
    "empty": lambda Empty, **_: (repr(Empty()), Empty() == Empty(), hash(Empty())),
    "by names": lambda Named, **_: (repr(Named(last=1)), Named(last=1, size=2) == Named(size=2, last=1)),
    "by names, positions": lambda Named, **_: Named(1, last=2),
    "by names, missing": lambda Named, **_: Named(size=1),
    "by names, fields": lambda Named, **_: [(f.name, f.kw_only, dict(f.metadata)) for f in dataclasses.fields(Named)],
    "by names, match": lambda Named, Mixed, **_: (Named.__match_args__, Mixed.__match_args__),
    "by names, derived": lambda Mixed, **_: (repr(Mixed(1, 2.0, w=3)), repr(dataclasses.replace(Mixed(1, w=3), w=4))),
    "copies": lambda Deep, **_: (copy.copy(Deep(1)) == Deep(1), copy.deepcopy(Deep(1, z=3)).z),
}


@pytest.mark.parametrize("few", [1, 3, 64])  # compiled at once, in between, never
@pytest.mark.parametrize("row", ROWS)
def test_the_same_as_the_standard_one(row: str, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Classes anew, so that each row is the first to ask for what it asks for; then once more.
    monkeypatch.setattr(records, "FEW", few)
    fresh = family(records.dataclass)
    first = outcome(ROWS[row], fresh)
    assert repr(first) == repr(outcome(ROWS[row], THEIRS)) == repr(outcome(ROWS[row], fresh))


@records.dataclass(frozen=True)
class Sent:
    x: int
    y: str = "b"


def test_pickles() -> None:
    assert pickle.loads(pickle.dumps(Sent(1))) == Sent(1)


def test_functions_are_compiled_when_they_were_called_some_times() -> None:
    @records.dataclass(frozen=True)
    class One:
        x: int

    def now() -> list[object]:
        return [One.__init__, One.__eq__, One.__hash__, One.__repr__]

    later = now()
    for _ in range(records.FEW - 1):
        assert One(1).x == 1
    assert [a is b for a, b in zip(later, now(), strict=True)] == [True] * 4
    assert One(1) == One(1)
    assert [a is b for a, b in zip(later, now(), strict=True)] == [False, True, True, True]
    for _ in range(records.FEW):
        assert hash(One(2)) == hash((2,)) and One(2) == One(2)
    assert [a is b for a, b in zip(later, now(), strict=True)] == [False, False, False, True]
