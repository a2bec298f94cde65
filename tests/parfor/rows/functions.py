"""Loops inside of functions that the program defines: known answers. In: nothing. Out: rows (row.py)."""

from __future__ import annotations

from tests.parfor.rows.row import Row, no, yes


def inside(*lines: str, call: str = "f()", head: str = "f()") -> str:
    """A function with these lines, and its call."""
    return f"def {head}:\n" + "\n".join("    " + x for line in lines for x in line.split("\n")) + f"\n{call}\n"


SHIFTS = "for i in parfor(n): A[i] = A[i + 1]"
ENDS = "for i in parfor(n):\n    if B[i] > 3: return i\nreturn 0"

FUNCTION_ROWS = [
    *no(
        inside("y = 0", "for i in parfor(n): y = i", "return y"),
        inside("y = 0", "for i in parfor(n): y = i", "y += 1"),
        inside("y = 0", "def g(): return y", "for i in parfor(n): y = i", "return g"),
        inside("global y", "for i in parfor(n): y = i"),
        inside("y = 0", "for i in parfor(n):\n    if B[i] > 3: y = i", "return y"),
        inside(ENDS),
        inside("for i in parfor(n):\n    A[i] = 1\n    yield i", call="list(f())"),
        inside(SHIFTS, call=""),
        inside(SHIFTS, head="f(self)", call="").replace("def f", "class K:\n  def f").replace("\n    f", "\n      f"),
        "try:\n    " + SHIFTS + "\nexcept* ValueError: pass\n",
        inside("for i in parfor(n): a[i] = b[i + 1]", head="f(a, b)", call="f(A, A)\nf(A, C)"),
        inside("for i in parfor(n): a[i] = b[i + 1]", head="f(a, b)", call="f(A, C)\nf(A, A)"),
    ),
    *yes(
        inside("for i in parfor(n): a[i] = b[i + 1]", head="f(a, b)", call="f(A, C)\nf(C, A)"),
        inside("y = 0", "for i in parfor(n):\n    y = i\n    A[i] = y", "return 3"),
        inside("y = 0.0", "for i in parfor(n): y += B[i]", "return y"),
        inside(ENDS.replace("parfor(n)", "range(n)"), head="f(k)", call="for k in parfor(n): A[k] = f(k)"),
    ),
    Row(inside(ENDS, head="f(k)", call="for k in parfor(n): A[k] = f(k)"), (False, True)),
    Row(
        "for i in parfor(n):\n    for j in parfor(n):\n        if X[i, j] > 3: break\n        M[i, j] = 1\n",
        (True, False),
    ),
]
