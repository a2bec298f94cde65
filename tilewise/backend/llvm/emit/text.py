"""LLVM IR as text: SSA values with operators. In: Python expressions on `Val`. Out: lines of a function.

Knows LLVM's syntax and nothing of NumPy. A `Val` has a scalar type ("double", "i64", "i1", …) and a number of lanes;
one lane is a plain scalar, so the same emitting code gives scalar and vector loops. Numbers coerce to constants. The
types "c64" and "c128" are structs of two vectors (real and imaginary lanes), which can be phis, selects and constants.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tilewise.records import dataclass

Number = float | int | complex

SUFFIX = {"double": "f64", "float": "f32"}
COMPLEX = {"c128": "double", "c64": "float"}  # the type of the parts
BITS = {"double": 64, "float": 32, "i64": 64, "i32": 32, "i16": 16, "i8": 8, "i1": 1}


def vtype(ty: str, lanes: int) -> str:
    """The text of a type: `<8 x double>`, or `double` for one lane."""
    if ty in COMPLEX:
        part = vtype(COMPLEX[ty], lanes)
        return f"{{ {part}, {part} }}"
    return ty if lanes == 1 else f"<{lanes} x {ty}>"


def iota(lanes: int) -> str:
    """0, 1, 2, … as the text of i64 lanes."""
    return f"<{', '.join(f'i64 {i}' for i in range(lanes))}>"


def literal(ty: str, value: float) -> str:
    """The text of a scalar constant, floats by their bits."""
    if ty == "i1":
        return "true" if value else "false"
    if ty == "float":
        (value,) = struct.unpack("<f", struct.pack("<f", value))
    if ty in ("float", "double"):
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    bits, number = BITS[ty], int(value)
    return str(number - (1 << bits) if number >= 1 << (bits - 1) else number)


_ATTRIBUTES = 'attributes #0 = { nounwind "prefer-vector-width"="512" "min-legal-vector-width"="512" }'
_PURE = "attributes #1 = { nounwind willreturn memory(none) }"
OPTIMISED = '"passes"="standard"'  # tells compile/compiler.py to run LLVM's passes


class Function:
    """The lines of one function under construction, and the intrinsics it needs."""

    def __init__(self, name: str, args: str) -> None:
        self.head = f"define void @{name}({args}) #0"
        self.entry: list[str] = ["entry:"]
        self.lines: list[str] = []
        self.block = "entry"
        self.declares: set[str] = set()
        self.pairs: dict[str, tuple[Val, Val]] = {}  # the parts of complex values, by name
        self.helpers: dict[str, str] = {}  # what the module holds beside this: functions it calls
        self.avx512 = False  # whether it may use what is in avx512.py
        self.pooling = False  # whether long polynomials load what they add to: ARM's multiply-adds overwrite it
        self.metadata: list[str] = []  # numbered from 1
        self.optimised = False  # whether LLVM's passes run: kernels are emitted as they shall be, programs are not
        self.rooted = 0  # of four registers of square roots, those that ARM makes of multiplications
        self._count = 0
        self._pool: list[str] = []  # numbers in memory
        self._pool_at = ""

    def fresh(self, hint: str = "v") -> str:
        """A name not yet used."""
        self._count += 1
        return f"{hint}{self._count}"

    def do(self, text: str) -> None:
        """A line without a result."""
        self.lines.append("  " + text)

    def let(self, text: str) -> str:
        """A line with a result; returns its name."""
        name = "%" + self.fresh()
        self.lines.append(f"  {name} = {text}")
        return name

    def hoist(self, text: str) -> str:
        """A line of the entry block, for values that no loop changes; returns its name."""
        name = "%" + self.fresh()
        self.entry.append(f"  {name} = {text}")
        return name

    @contextmanager
    def in_entry(self) -> Iterator[None]:
        """What is emitted inside goes to the entry block."""
        self.lines, kept = self.entry, self.lines
        try:
            yield
        finally:
            self.lines = kept

    def pooled(self, numbers: Sequence[float], lanes: int) -> list[Val]:
        """Doubles in every lane, each loaded right where it is used: no other use shares it, no loop keeps it."""
        if not self._pool_at:
            self._pool_at = self.hoist("alloca ptr, align 8")
            self.entry.append(f"  store ptr @pool, ptr {self._pool_at}, align 8")
        start = self.let(f"load volatile ptr, ptr {self._pool_at}, align 8")
        found = []
        for number in numbers:
            at = self.let(f"getelementptr double, ptr {start}, i64 {len(self._pool)}")
            self._pool += [f"double {literal('double', number)}"] * lanes
            found.append(Val(self, self.let(f"load {vtype('double', lanes)}, ptr {at}, align 16"), "double", lanes))
        return found

    def label(self, name: str) -> None:
        """Start a block."""
        self.lines.append(f"{name}:")
        self.block = name

    def module(self) -> str:
        """The function with all that it needs, but for the names of the machine (compile/compiler.py adds them)."""
        attributes = [_ATTRIBUTES.replace(" }", f" {OPTIMISED} }}"), _PURE] if self.optimised else [_ATTRIBUTES]
        return "\n".join([*sorted(self.declares), self.text(), *attributes, "!0 = !{i32 1}", *self.metadata])

    def text(self) -> str:
        """The whole function, after those it calls."""
        numbers = f"[{len(self._pool)} x double] [{', '.join(self._pool)}]"
        pool = [f"@pool = private unnamed_addr constant {numbers}, align 16"] if self._pool else []
        return "\n".join([*pool, *self.helpers.values(), self.head + " {", *self.entry, *self.lines, "  ret void", "}"])


@dataclass(frozen=True, eq=False)
class Val:
    """An SSA value."""

    fn: Function
    name: str
    ty: str
    lanes: int

    @property
    def text(self) -> str:
        """The value with its type, as an operand."""
        return f"{vtype(self.ty, self.lanes)} {self.name}"

    @property
    def is_float(self) -> bool:
        return self.ty in SUFFIX

    @property
    def lane_bits(self) -> int:
        """Of one lane in a register."""
        return 2 * BITS[COMPLEX[self.ty]] if self.ty in COMPLEX else BITS[self.ty]

    def const(self, value: Number, ty: str | None = None) -> Val:
        """A constant with this value's lanes."""
        ty = ty or self.ty
        if ty in COMPLEX:
            whole, part = complex(value), COMPLEX[ty]
            both = ", ".join(self.const(v, part).text for v in (whole.real, whole.imag))
            return Val(self.fn, f"{{ {both} }}", ty, self.lanes)
        word = literal(ty, value.real if isinstance(value, complex) else value)
        return Val(self.fn, word if self.lanes == 1 else f"splat ({ty} {word})", ty, self.lanes)

    @property
    def constant(self) -> str | None:
        """The word of a number that all lanes have, known here (as `literal` writes it); None for any other value."""
        word = self.name.removeprefix(f"splat ({self.ty} ").removesuffix(")")
        return word if word.isalnum() and word[0].isdigit() else None

    def coerce(self, other: Val | Number) -> Val:
        """`other` as a value of this type."""
        if isinstance(other, Val):
            assert other.ty == self.ty and other.lanes == self.lanes, f"{self.text} with {other.text}"
            return other
        return self.const(other)

    def make(self, text: str, ty: str | None = None) -> Val:
        """A new value with this value's lanes."""
        return Val(self.fn, self.fn.let(text), ty or self.ty, self.lanes)

    def op(self, opcode: str, other: Val | Number) -> Val:
        """A two-operand instruction."""
        return self.make(f"{opcode} {self.text}, {self.coerce(other).name}")

    def __add__(self, o: Val | Number) -> Val:
        return self.op("fadd" if self.is_float else "add", o)

    def __sub__(self, o: Val | Number) -> Val:
        return self.op("fsub" if self.is_float else "sub", o)

    def __mul__(self, o: Val | Number) -> Val:
        return self.op("fmul" if self.is_float else "mul", o)

    def __truediv__(self, o: Val | Number) -> Val:
        return self.op("fdiv", o)

    def __rsub__(self, o: Number) -> Val:
        return self.const(o) - self

    def __rtruediv__(self, o: Number) -> Val:
        return self.const(o) / self

    __radd__ = __add__
    __rmul__ = __mul__

    def __and__(self, o: Val | Number) -> Val:
        return self.op("and", o)

    def __or__(self, o: Val | Number) -> Val:
        return self.op("or", o)

    def __xor__(self, o: Val | Number) -> Val:
        return self.op("xor", o)

    def __lshift__(self, o: Val | Number) -> Val:
        return self.op("shl", o)

    def __rshift__(self, o: Val | Number) -> Val:
        return self.op("ashr", o)

    def __neg__(self) -> Val:
        return self.make(f"fneg {self.text}") if self.is_float else self.const(0) - self

    def __invert__(self) -> Val:
        return self ^ (1 if self.ty == "i1" else -1)

    def cmp(self, predicate: str, other: Val | Number) -> Val:
        """A comparison: "olt", "une" … for floats; "slt", "ult", "eq" … for integers."""
        word = "fcmp" if self.is_float else "icmp"
        return self.make(f"{word} {predicate} {self.text}, {self.coerce(other).name}", "i1")

    def select(self, a: Val, b: Val | Number) -> Val:
        """`a` where this (an i1) is true, else `b`."""
        if a.ty in COMPLEX:
            one, other = a.parts, a.coerce(b).parts
            return pair(self.select(one[0], other[0]), self.select(one[1], other[1]))
        return self.make(f"select {self.text}, {a.text}, {a.coerce(b).text}", a.ty)

    def convert(self, opcode: str, ty: str) -> Val:
        """A cast instruction (sext, trunc, sitofp, bitcast, …)."""
        return self.make(f"{opcode} {self.text} to {vtype(ty, self.lanes)}", ty)

    def bits(self) -> Val:
        """A float's bits as an integer."""
        return self.convert("bitcast", "i64" if self.ty == "double" else "i32")

    def halves(self) -> Val:
        """The bits of double lanes as two integers each, the lower first."""
        text = f"bitcast {self.text} to {vtype('i32', 2 * self.lanes)}"
        return Val(self.fn, self.fn.let(text), "i32", 2 * self.lanes)

    def as_float(self) -> Val:
        """An integer's bits as a float."""
        return self.convert("bitcast", "double" if self.ty == "i64" else "float")

    @property
    def parts(self) -> tuple[Val, Val]:
        """The real and the imaginary lanes of a complex value."""
        known = self.fn.pairs.get(self.name)
        if known is not None:
            return known
        part = COMPLEX[self.ty]
        return self.make(f"extractvalue {self.text}, 0", part), self.make(f"extractvalue {self.text}, 1", part)

    def intrinsic(self, name: str, *others: Val | Number) -> Val:
        """`llvm.<name>` on this and further operands of this type."""
        return intrinsic(name, self, *(self.coerce(o) for o in others))

    def shuffle(self, first: int, count: int) -> Val:
        """Lanes first … first + count."""
        if self.ty in COMPLEX:
            return pair(*(p.shuffle(first, count) for p in self.parts))
        if count == 1:
            return Val(self.fn, self.fn.let(f"extractelement {self.text}, i64 {first}"), self.ty, 1)
        mask = ", ".join(f"i32 {first + i}" for i in range(count))
        text = f"shufflevector {self.text}, {vtype(self.ty, self.lanes)} poison, <{count} x i32> <{mask}>"
        return Val(self.fn, self.fn.let(text), self.ty, count)

    def splat(self, lanes: int, *, hoist: bool = False) -> Val:
        """This scalar in every lane (hoisted: it is defined in the entry block)."""
        assert self.lanes == 1
        if lanes == 1:
            return self
        let = self.fn.hoist if hoist else self.fn.let
        if self.ty in COMPLEX:
            both = [Val(self.fn, let(f"extractvalue {self.text}, {i}"), COMPLEX[self.ty], 1) for i in (0, 1)]
            return pair(*(p.splat(lanes, hoist=hoist) for p in both), hoist=hoist)
        vec = vtype(self.ty, lanes)
        one = let(f"insertelement {vec} poison, {self.text}, i64 0")
        all_ = let(f"shufflevector {vec} {one}, {vec} poison, <{lanes} x i32> zeroinitializer")
        return Val(self.fn, all_, self.ty, lanes)


def intrinsic(name: str, *args: Val) -> Val:
    """Call an overloaded LLVM intrinsic whose operands and result have one type."""
    first = args[0]
    suffix = SUFFIX.get(first.ty, first.ty)
    full = f"llvm.{name}." + (suffix if first.lanes == 1 else f"v{first.lanes}{suffix}")
    vec = vtype(first.ty, first.lanes)
    first.fn.declares.add(f"declare {vec} @{full}({', '.join([vec] * len(args))})")
    return first.make(f"call {vec} @{full}({', '.join(a.text for a in args)})")


def pair(re: Val, im: Val, *, hoist: bool = False) -> Val:
    """The complex value of two parts."""
    fn, ty = re.fn, "c128" if re.ty == "double" else "c64"
    let, whole = fn.hoist if hoist else fn.let, vtype(ty, re.lanes)
    half = let(f"insertvalue {whole} poison, {re.text}, 0")
    made = Val(fn, let(f"insertvalue {whole} {half}, {im.text}, 1"), ty, re.lanes)
    fn.pairs[made.name] = (re, im)
    return made


def interleave(re: Val, im: Val) -> Val:
    """One vector of real and imaginary parts in turn."""
    n = re.lanes
    if n == 1:
        one = re.fn.let(f"insertelement <2 x {re.ty}> poison, {re.text}, i64 0")
        return Val(re.fn, re.fn.let(f"insertelement <2 x {re.ty}> {one}, {im.text}, i64 1"), re.ty, 2)
    order = ", ".join(f"i32 {i}, i32 {n + i}" for i in range(n))
    return Val(re.fn, re.fn.let(f"shufflevector {re.text}, {im.text}, <{2 * n} x i32> <{order}>"), re.ty, 2 * n)


def apart(both: Val) -> tuple[Val, Val]:
    """The even and the odd lanes."""
    n = both.lanes // 2
    if n == 1:
        return both.shuffle(0, 1), both.shuffle(1, 1)
    out = []
    for odd in (0, 1):
        order = ", ".join(f"i32 {2 * i + odd}" for i in range(n))
        text = f"shufflevector {both.text}, {vtype(both.ty, both.lanes)} poison, <{n} x i32> <{order}>"
        out.append(Val(both.fn, both.fn.let(text), both.ty, n))
    return out[0], out[1]


def of_lanes(ones: list[Val]) -> Val:
    """Scalars as the lanes of a vector."""
    found = Val(ones[0].fn, "poison", ones[0].ty, len(ones))
    for i, one in enumerate(ones):
        found = found.make(f"insertelement {found.text}, {one.text}, i64 {i}")
    return found


def joined(parts: list[Val]) -> Val:
    """The lanes of several vectors in one."""
    if parts[0].ty in COMPLEX:
        return pair(*(joined(list(each)) for each in zip(*(p.parts for p in parts), strict=True)))
    while len(parts) > 1:
        n, order = parts[0].lanes, ", ".join(f"i32 {i}" for i in range(2 * parts[0].lanes))
        parts = [
            Val(a.fn, a.fn.let(f"shufflevector {a.text}, {b.text}, <{2 * n} x i32> <{order}>"), a.ty, 2 * n)
            for a, b in zip(parts[::2], parts[1::2], strict=True)
        ]
    return parts[0]


def fma(a: Val, b: Val | Number, c: Val | Number) -> Val:
    """a * b + c, rounded once."""
    return intrinsic("fma", a, a.coerce(b), a.coerce(c))


def polynomial(x: Val, coefficients: tuple[float, ...], *, loaded: bool = False) -> Val:
    """The polynomial with these coefficients, constant term first (loaded: from memory, on ARM; a matter of measuring).

    By Estrin's scheme: pairs, pairs of pairs, ... A chain of multiply-adds would wait for each one's latency.
    """
    terms: list[Val | float] = list(coefficients)
    if loaded and x.fn.pooling and x.lanes > 1:
        terms[::2] = x.fn.pooled(coefficients[::2], x.lanes)
    power = x
    while len(terms) > 1:
        paired: list[Val | float] = []
        for low, high in zip(terms[::2], terms[1::2], strict=False):
            paired.append(fma(x.coerce(high), power, low))
        if len(terms) % 2:
            paired.append(terms[-1])
        terms = paired
        if len(terms) > 1:
            power = power * power
    return x.coerce(terms[0])


def anywhere(mask: Val) -> Val:
    """Whether any lane of a mask is set."""
    return _over_lanes("or", mask)


def highest(x: Val) -> Val:
    """The highest of unsigned lanes."""
    return _over_lanes("umax", x)


def lowest(x: Val) -> Val:
    """The lowest of unsigned lanes."""
    return _over_lanes("umin", x)


def _over_lanes(op: str, x: Val) -> Val:
    if x.lanes == 1:
        return x
    name = f"llvm.vector.reduce.{op}.v{x.lanes}{x.ty}"
    x.fn.declares.add(f"declare {x.ty} @{name}({vtype(x.ty, x.lanes)})")
    return Val(x.fn, x.fn.let(f"call {x.ty} @{name}({x.text})"), x.ty, 1)
