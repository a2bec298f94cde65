"""Products of matrices inside of programs. In: a product of arrays. Out: a call of BLAS, or loops for small ones.

A vector is a matrix of one column (on the right) or one row (on the left). Without SciPy there is no BLAS, and large
products are loops, too.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from tilewise.backend.llvm.emit.control import each
from tilewise.backend.llvm.emit.text import Function, Val, literal
from tilewise.backend.llvm.products.gemm import address
from tilewise.backend.llvm.program import layout
from tilewise.kernel.program.ir import Product, Program
from tilewise.kernel.program.walk import statements

if TYPE_CHECKING:
    from tilewise.backend.llvm.program.emit import Emitter

ROUTINES = ("dgemm", "sgemm", "dgemv", "sgemv")
LEAST = 512  # multiplications that are worth a call
MOST = (1 << 31) - 1  # BLAS counts in 32 bits


def used(program: Program) -> bool:
    """Whether a program has such products."""
    return any(isinstance(s, Product) for p in (program, *program.functions) for s in statements(p.body))


@cache
def addresses() -> tuple[int, ...]:
    """Where the routines are; zeros without SciPy."""
    return tuple(address(name) or 0 for name in ROUTINES)


def emit(em: Emitter, s: Product) -> None:
    """array := left @ right"""
    fn = em.fn
    dtype = em.p.arrays[s.array].dtype
    ty = {"float64": "double", "float32": "float"}[dtype]
    left, right = em.arrays[s.left], em.arrays[s.right]
    one, none = em.number(1), em.number(0)
    by_row, by_column = len(left.dims) == 1, len(right.dims) == 1
    m = one if by_row else em.word(left.dims[0])
    n = one if by_column else em.word(right.dims[1])
    steps = (
        none if by_row else em.word(left.strides[0]), em.word(left.strides[-1]),
        em.word(right.strides[0]), none if by_column else em.word(right.strides[1]),
    )  # fmt: skip
    fn.helpers[f"product_{ty}"] = _helper(ty)
    gemm, gemv = (fn.let(f"load ptr, ptr {em.out(layout.BLAS + at + (ty == 'float'))}") for at in (0, 2))
    data = [fn.let(f"load ptr, ptr {em.arrays[a].data}") for a in (s.array, s.left, s.right)]
    words = ", ".join(v.text for v in (m, n, em.word(left.dims[-1]), *steps))
    fn.do(f"call void @product_{ty}({', '.join(f'ptr {p}' for p in (*data, gemm, gemv))}, {words})")


@cache
def _helper(ty: str) -> str:
    """The function c = a @ b of sizes and strides."""
    args = "ptr noalias %c, ptr %a, ptr %b, ptr %gemm, ptr %gemv, " + ", ".join(
        f"i64 %{n}" for n in ("m", "n", "k", "a0", "a1", "b0", "b1")
    )
    fn = Function(f"product_{ty}", args)
    fn.head = fn.head.replace("define void", "define internal void").replace(" #0", " noinline #0")
    make = _Maker(fn, ty)
    m, n, k, a0, a1, b0, b1 = (Val(fn, f"%{x}", "i64", 1) for x in ("m", "n", "k", "a0", "a1", "b0", "b1"))
    simple, vector, row, column, matrix, over = map(fn.fresh, ("simple", "vector", "row", "column", "matrix", "over"))
    large = (m * n * k).cmp("sge", LEAST) & Val(fn, fn.let("icmp ne ptr %gemm, null"), "i1", 1)
    for size in (m, n, k):
        large = large & size.cmp("slt", MOST)
    calls = fn.fresh("calls")
    fn.do(f"br i1 {large.name}, label %{calls}, label %{simple}")
    fn.label(calls)
    flat = n.cmp("eq", 1) | m.cmp("eq", 1)
    fn.do(f"br i1 {flat.name}, label %{vector}, label %{matrix}")
    fn.label(vector)
    fn.do(f"br i1 {n.cmp('eq', 1).name}, label %{column}, label %{row}")
    fn.label(column)
    make.by_vector("%a", m, k, a0, a1, "%b", b0, simple, over)
    fn.label(row)
    make.by_vector("%b", n, k, b1, b0, "%a", a1, simple, over)
    fn.label(matrix)
    make.by_matrix(m, n, k, a0, a1, b0, b1, simple, over)
    fn.label(simple)
    make.loops(m, n, k, a0, a1, b0, b1)
    fn.do(f"br label %{over}")
    fn.label(over)
    return fn.text()


class _Maker:
    """The ways to make a product."""

    def __init__(self, fn: Function, ty: str) -> None:
        self.fn, self.ty, self.size = fn, ty, 8 if ty == "double" else 4

    def _kept(self, kind: str, value: str) -> str:
        at = self.fn.hoist(f"alloca {kind}, align 8")
        self.fn.do(f"store {kind} {value}, ptr {at}, align 8")
        return at

    def _int(self, v: Val) -> str:
        return self._kept("i32", v.convert("trunc", "i32").name)

    def _lies(self, rows: Val, columns: Val, s0: Val, s1: Val) -> tuple[Val, Val, Val]:
        """Whether a matrix lies row by row; the step between rows (or columns) in elements; whether BLAS takes it."""
        by_rows = s1.cmp("eq", self.size)
        far, least = by_rows.select(s0, s1), by_rows.select(columns, rows)
        leading = far.op("sdiv", self.size)
        whole = far.op("srem", self.size).cmp("eq", 0) & leading.cmp("sge", least) & leading.cmp("slt", MOST)
        return by_rows, leading, whole & (by_rows | s0.cmp("eq", self.size))

    def _letter(self, transposed: Val) -> str:
        return self._kept("i8", transposed.select(transposed.const(84, "i8"), 78).name)

    def by_vector(self, a: str, m: Val, k: Val, s0: Val, s1: Val, x: str, step: Val, otherwise: str, over: str) -> None:
        """c = a @ x"""
        fn = self.fn
        by_rows, leading, fits = self._lies(m, k, s0, s1)
        fits = fits & step.cmp("sgt", 0) & step.op("srem", self.size).cmp("eq", 0)
        go = fn.fresh("gemv")
        fn.do(f"br i1 {fits.name}, label %{go}, label %{otherwise}")
        fn.label(go)
        rows, columns = self._int(by_rows.select(k, m)), self._int(by_rows.select(m, k))
        one, zero = self._kept(self.ty, literal(self.ty, 1.0)), self._kept(self.ty, literal(self.ty, 0.0))
        by, unit = self._int(step.op("sdiv", self.size)), self._kept("i32", "1")
        args = (self._letter(by_rows), rows, columns, one, a, self._int(leading), x, by, zero, "%c", unit)
        fn.do(f"call void %gemv({', '.join(f'ptr {p}' for p in args)})")
        fn.do(f"br label %{over}")

    def by_matrix(self, m: Val, n: Val, k: Val, a0: Val, a1: Val, b0: Val, b1: Val, otherwise: str, over: str) -> None:
        """c = a @ b; BLAS counts by columns: it computes the transposed product."""
        fn = self.fn
        a_rows, a_leading, a_fits = self._lies(m, k, a0, a1)
        b_rows, b_leading, b_fits = self._lies(k, n, b0, b1)
        go = fn.fresh("gemm")
        fn.do(f"br i1 {(a_fits & b_fits).name}, label %{go}, label %{otherwise}")
        fn.label(go)
        one, zero = self._kept(self.ty, literal(self.ty, 1.0)), self._kept(self.ty, literal(self.ty, 0.0))
        letters = self._letter(~b_rows), self._letter(~a_rows)
        sizes = self._int(n), self._int(m), self._int(k)
        args = (*letters, *sizes, one, "%b", self._int(b_leading), "%a", self._int(a_leading), zero, "%c", sizes[0])
        fn.do(f"call void %gemm({', '.join(f'ptr {p}' for p in args)})")
        fn.do(f"br label %{over}")

    def loops(self, m: Val, n: Val, k: Val, a0: Val, a1: Val, b0: Val, b1: Val) -> None:
        """c = a @ b, one after the other."""
        fn, ty = self.fn, self.ty

        def number(name: str) -> Val:
            return Val(fn, name, "i64", 1)

        def place(base: str, *terms: tuple[str, Val]) -> str:
            for i, step in terms:
                base = fn.let(f"getelementptr inbounds i8, ptr {base}, i64 {(step * number(i)).name}")
            return base

        def row(i: str) -> None:
            out = fn.let(f"getelementptr inbounds {ty}, ptr %c, i64 {(n * number(i)).name}")
            each(fn, "0", n.name, "1", lambda j: fn.do(f"store {ty} {zero}, ptr {element(out, j)}"))

            def step(l: str) -> None:
                x = Val(fn, fn.let(f"load {ty}, ptr {place('%a', (i, a0), (l, a1))}"), ty, 1)
                line = place("%b", (l, b0))
                unit, gaps, after = fn.fresh("unit"), fn.fresh("gaps"), fn.fresh("after")
                fn.do(f"br i1 {b1.cmp('eq', self.size).name}, label %{unit}, label %{gaps}")
                for label, where in ((unit, lambda j: element(line, j)), (gaps, lambda j: place(line, (j, b1)))):
                    fn.label(label)
                    each(fn, "0", n.name, "1", lambda j, where=where: add(out, j, x, where(j)))  # type: ignore[misc]
                    fn.do(f"br label %{after}")
                fn.label(after)

            each(fn, "0", k.name, "1", step)

        def element(base: str, j: str) -> str:
            return fn.let(f"getelementptr inbounds {ty}, ptr {base}, i64 {j}")

        def add(out: str, j: str, x: Val, at: str) -> None:
            y = Val(fn, fn.let(f"load {ty}, ptr {at}"), ty, 1)
            to = element(out, j)
            old = Val(fn, fn.let(f"load {ty}, ptr {to}"), ty, 1)
            fn.do(f"store {(old + x * y).text}, ptr {to}")

        zero = literal(ty, 0.0)
        each(fn, "0", m.name, "1", row)
