"""The layouts that a value could have, as a table. In: what the solver found of each. Out: text (see explain.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewise.layout import describe
from tilewise.observe.table import WIDTH
from tilewise.records import dataclass
from tilewise.solver.model.why import Alternative


@dataclass(frozen=True)
class Why:
    """The layouts an array could have, the cheapest first, and what the whole program costs with each."""

    value: str
    rows: Sequence[Alternative]
    units: Callable[[int], float]
    objective: str

    def __str__(self) -> str:
        lines = [f"{self.value}: what the whole program costs with it as"]
        best = self.rows[0].cost
        width = max(len(describe(row.layout)) for row in self.rows)
        for row in self.rows:
            more = "" if row.cost == best else f"+{self._amount(row.cost - best)}"
            note = "chosen" if row.chosen else "as good" if row.cost == best else ""
            reasons = "; ".join(f"{what} (+{self._amount(cost)})" for what, cost in row.reasons[:2])
            line = f"  {describe(row.layout):<{width}} {self._amount(row.cost):>16} {more:>16}  {note or reasons}"
            lines.append(line if len(line) <= WIDTH else line[: WIDTH - 1] + "…")
        return "\n".join(lines)

    __repr__ = __str__

    def _amount(self, cost: int) -> str:
        amount = self.units(cost)
        return f"{amount:,.0f} bytes" if self.objective == "bytes" else f"{amount * 1e3:,.3f} ms"
