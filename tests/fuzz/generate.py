"""Random programs. In: a seed. Out: a Program whose lines mean something, because NumPy runs each as it is made.

Variables v… hold small integers where sums are taken (so any order of summation gives the same bits); r… are ends of
rough computations, compared by an error bound and never used again.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from tests.fuzz.choose import DTYPES, Chooser
from tests.fuzz.idioms import idiom
from tests.fuzz.program import Line, Loop, Program, _Code

BINARY = ("+", "-", "*", "/", "//", "%", "**", "&", "|", "^", "<", "<=", "==", "!=", ">", ">=", "<<")
BINARY_WEIGHTS = (9, 9, 9, 4, 1, 2, 1, 1, 1, 1, 2, 1, 2, 1, 2, 1, 0.3)
TWO = "maximum minimum fmax fmin add subtract multiply divide arctan2 copysign logical_and logical_or hypot".split()
ONE = (
    "negative absolute square sqrt floor ceil trunc rint sign isnan isinf isfinite logical_not positive conjugate "
    "signbit reciprocal invert fabs spacing"
).split()
State = tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]
ROUGH = "exp log sin cos tanh log1p expm1 sqrt cbrt arctan exp2 log2".split()


class Generator(Chooser):
    """Makes one program."""

    def __init__(self, seed: int, length: int = 14, large: bool = False) -> None:
        super().__init__(seed, large)
        self.length = length
        self.code = _Code()
        self.lines: list[Line | Loop] = []
        self.body: list[Line] | None = None
        self.made = 0

    def emit(self, text: str, target: str | None = None, sums: tuple[str, ...] = (), power: bool = False) -> None:
        """Add a line, unless its sums would not be exact or it makes too much."""
        line = Line(text, target, ("power", *sums) if power else sums)
        before = self.state()
        try:
            if sums and not self.exact(*sums, power=power):
                return
            if not self.defined(line):
                self.back(before)
                return
            made = self.names.get(target) if target else None
            if isinstance(made, np.ndarray | np.generic) and (made.size > 20_000 or made.dtype == object):
                del self.names[target]  # type: ignore[arg-type]
                return
        except Exception:
            if not self.chance(0.25):
                return
        self.made += 1
        (self.lines if self.body is None else self.body).append(line)

    def defined(self, line: Line) -> bool:
        """Run a line; whether NumPy says what it gives. What NaN or infinity is as an integer, the processor says."""
        with warnings.catch_warnings(record=True) as told, np.errstate(all="ignore", invalid="warn"):
            warnings.simplefilter("always")
            self.code.run(self.made, line, self.names)
        return not any("encountered in cast" in str(w.message) for w in told)

    def state(self) -> State:
        """The variables, and what is in them."""
        return dict(self.names), {k: v.copy() for k, v in self.names.items() if isinstance(v, np.ndarray)}

    def back(self, state: State) -> None:
        """Return to a state."""
        self.names, contents = state
        for k, v in contents.items():
            if self.names[k].flags.writeable:
                self.names[k][...] = v

    def make(self) -> Program:
        for _ in range(self.rng.randint(2, 4)):
            self.create()
        while self.made < self.length:
            if self.body is None and self.chance(0.12):
                self.loop()
            self.instruction()
        return tuple(self.lines)

    def loop(self) -> None:
        """A body made while its first turn runs; further turns as long as sums stay exact."""
        self.body = []
        for _ in range(self.rng.randint(1, 5)):
            self.instruction()
        body, self.body = tuple(self.body), None
        turns = 1
        wanted = self.rng.randint(2, 6)
        while body and turns < wanted:
            before = self.state()
            try:
                for line in body:
                    if line.sums:
                        power = line.sums[0] == "power"
                        if not self.exact(*line.sums[power:], power=power):
                            raise StopIteration
                    try:
                        if not self.defined(line):
                            raise StopIteration
                    except (NameError, MemoryError, StopIteration):
                        raise StopIteration from None
                    except Exception:
                        pass
            except (StopIteration, Exception):
                self.back(before)
                break
            turns += 1
            if any(isinstance(v, np.ndarray) and v.size > 20_000 for v in self.names.values()):
                wanted = 0  # it grows
        if body:
            self.lines.append(Loop(turns, body) if turns > 1 else body[0])
            if turns == 1:
                self.lines += body[1:]

    def idiom(self) -> None:
        for line in idiom(self.rng, lambda: self.fresh(rough=True)):
            self.lines.append(line)
            self.made += 1

    def instruction(self) -> None:
        if self.large and self.body is None and self.chance(0.4):
            self.idiom()
            return
        kinds = [k for k, _ in KINDS]
        weights = [w for _, w in KINDS]
        getattr(self, self.rng.choices(kinds, weights)[0])()

    def create(self) -> None:
        shape, dtype = self.shape(), self.rng.choice(DTYPES)
        text = f"data({self.rng.randrange(1000)}, {shape}, '{dtype}', {self.chance(0.2)})"
        kind = self.rng.random()
        if kind < 0.1:
            text += ".T"
        elif kind < 0.15:
            text = f"np.asarray({text}, order='F')"
        elif kind < 0.2:
            text = f"np.zeros({shape}, '{dtype}')"
        elif kind < 0.25:
            text = f"np.full({shape}, {self.scalar()})"
        elif kind < 0.3:
            text = f"np.arange({self.rng.randint(0, 9)})"
        elif kind < 0.35:
            text = f"np.ones({shape}, '{dtype}', order='{self.rng.choice('CF')}')"
        elif kind < 0.38 and (name := self.array()):
            text = f"np.{self.rng.choice(('zeros_like', 'ones_like'))}({self.view(name)})"
        elif kind < 0.4:
            text = f"foreign({text})"
        self.emit(text, self.fresh())

    def binary(self) -> None:
        name = self.pick()
        if name is None:
            return
        a = self.view(name)
        b = self.operand(np.shape(self.value(a)))
        if self.chance(0.15):
            a, b = b, a
        op = self.rng.choices(BINARY, BINARY_WEIGHTS)[0]
        if op in ("**", "<<"):
            b = self.rng.choice(("2", "1", "0.5", "2.0", "-1", "0"))
        rebind = self.chance(0.2)
        self.emit(f"{a} {op} {b}", name if rebind else self.fresh())

    def nested(self) -> None:
        """A fused expression."""
        name = self.pick()
        if name is None:
            return
        a = self.view(name)
        shape = np.shape(self.value(a))
        b, c = self.operand(shape), self.operand(shape)
        form = self.rng.choice(
            ("({a} + {b}) * {c}", "np.where({a} > {b}, {c}, {a})", "({a} - {b}) % 5", "np.maximum({a}, {b}) - {c}",
             "np.abs({a}) + {b} * {c}", "({a} == {b}) | ({a} > {c})", "np.square({a}) - {b}", "-{a} + {b}")
        )  # fmt: skip
        # The last bit of a complex number's size hangs on how the numbers lie, in NumPy itself.
        rough = "abs" in form and np.iscomplexobj(self.value(a))
        self.emit(form.format(a=a, b=b, c=c), name if self.chance(0.2) and not rough else self.fresh(rough))

    def unary(self) -> None:
        if name := self.pick():
            f, a = self.rng.choice(ONE), self.view(name)
            if f == "reciprocal" and np.asarray(self.value(a)).dtype.kind in "iu":
                a = f"({a} | 1)"  # of zero it is no integer, and hangs on how the numbers lie, in NumPy itself
            self.emit(f"np.{f}({a})", self.fresh(rough=f == "absolute" and np.iscomplexobj(self.value(a))))

    def ufunc(self) -> None:
        if name := self.pick():
            a = self.view(name)
            b = self.operand(np.shape(self.value(a)))
            f = self.rng.choice(TWO)
            if f in ("arctan2", "hypot"):
                self.emit(f"np.{f}({a}, {b})", self.fresh(rough=True))
                return
            option = self.rng.choice(("", "", ", dtype='float64'", ", dtype='float32'"))
            # Which zero fmin and fmax give hangs on how the operands lie, in NumPy itself: + 0 makes it one of them.
            plus = " + 0" if f in ("fmin", "fmax") else ""
            self.emit(f"np.{f}({a}, {b}{option}){plus}", self.fresh())

    def ufunc_out(self) -> None:
        out, name = self.array(), self.pick()
        if out is None or name is None:
            return
        target = self.view(out, 0.4)
        shape = np.shape(self.value(target))
        a, b = self.operand(shape), self.operand(shape)
        f = self.rng.choice(("add", "subtract", "multiply", "maximum", "divide", "less"))
        f = "add" if f in ("multiply", "divide") and self.settled("*", target, a, b) != "*" else f
        # Where the output overlaps an operand and its type differs, NumPy writes past the mask.
        apart = not any(np.may_share_memory(self.value(x), self.value(target)) for x in (a, b))
        # And it crashes where a mask meets a number that the integers it is compared with do not have.
        where = self.masks(shape) if apart and f != "less" else []
        option = f", where={self.rng.choice(where)}" if where and self.chance(0.4) else ""
        self.emit(f"np.{f}({a}, {b}, out={target}{option})", self.fresh() if self.chance(0.3) else None)

    def alias(self) -> None:
        if name := self.array():
            self.emit(self.view(name, 0.9) if self.chance(0.8) else name, self.fresh())

    def assign(self) -> None:
        name = self.array()
        if name is None:
            return
        v = self.names[name]
        key = self.key(v.shape)
        if not self.good(f"{name}[{key}]") and not self.chance(0.2):
            return
        shape = np.shape(self.value(f"{name}[{key}]")) if self.good(f"{name}[{key}]") else ()
        value = self.operand(shape)
        if value.startswith("v") and (".imag" in value or ".real" in value):
            value = f"({value} + 0)"  # NumPy 2.4 reads parts of complex numbers after it has overwritten them
        kind = self.rng.random()
        if kind < 0.4:
            self.emit(f"{name}[{key}] = {value}")
        elif kind < 0.5 and v.ndim:
            flip = self.rng.choice(("[::-1]", ".T", "[1:]", "[:-1]"))
            target = f"{name}[1:]" if flip == "[:-1]" else f"{name}[:-1]" if flip == "[1:]" else f"{name}[...]"
            self.emit(f"{target} = {name}{flip}")
        elif kind < 0.75:
            op, part = self.rng.choice(("+", "-", "*", "/", "//", "%")), f"{name}[{key}]"
            op = self.settled(op, part, value) if self.good(part) else op
            self.emit(f"{part} {op}= {value}")
        else:
            op, value = self.rng.choice(("+", "-", "*", "-", "+", "%", "/", "&", "|")), self.operand(v.shape)
            self.emit(f"{name} {self.settled(op, name, value)}= {value}")

    def mask(self) -> None:
        """Masks: symbolic lengths."""
        name = self.array(lambda v: v.ndim > 0 and v.dtype.kind != "c")
        if name is None:
            return
        a = self.view(name, 0.3)
        shape = np.shape(self.value(a))
        found = self.masks(shape)
        m = (
            self.rng.choice(found)
            if found and self.chance(0.5)
            else f"({a} {self.rng.choice(('>', '<', '=='))} {self.rng.choice('01-'[:2])})"
        )
        if self.chance(0.2):
            m = f"({a} > 0)[:, 0]" if len(shape) == 2 else f"({a} > 0)"
        b = self.operand(shape, numbers=False)
        kind = self.rng.random()
        if 0.45 <= kind < 0.85 and m in found and np.shares_memory(self.value(m), self.value(a)):
            m = f"{m}.copy()"  # NumPy reads a mask while it writes to it
        if kind < 0.2:
            self.emit(f"{a}[{m}]", self.fresh())
        elif kind < 0.3:
            self.emit(f"{a}[{m}] * 2 + {b}[{m}]", self.fresh())
        elif kind < 0.4:
            self.emit(f"{a}[{m}].sum({self.rng.choice(('', '0', 'axis=0, keepdims=True'))})", self.fresh(), (a,))
        elif kind < 0.45:
            if self.names[name].dtype.kind != "b":
                self.emit(f"({a}[{m}] - ({a}[{m}].max() + 0)).min() + 0", self.fresh())
        elif kind < 0.65:
            self.emit(f"{a}[{m}] = {self.scalar()}")
        elif kind < 0.75:
            self.emit(f"{a}[{m}] = {b}[{m}]")
        elif kind < 0.85:
            self.emit(f"{a}[{m}] {self.rng.choice('+-*')}= {self.rng.choice((self.scalar(), f'{b}[{m}]'))}")
        elif kind < 0.95:
            self.emit(f"{self.rng.choice(('<', '>', '!='))}".join((a, self.scalar())), self.fresh())
        else:
            self.emit(f"np.nonzero({m})", self.fresh())

    def fancy(self) -> None:
        name = self.array(lambda v: v.ndim > 0)
        if name is None:
            return
        a = self.view(name, 0.3)
        shape = np.shape(self.value(a))
        if not shape:
            return
        r = self.rng
        parts = [self.index(shape[0])]
        for d in shape[1:]:
            parts.append(r.choice((self.index(d), ":", "::2", "0", ":")))
        parts = parts[: r.randint(1, len(parts))]
        if self.chance(0.3):
            r.shuffle(parts)
        if self.chance(0.1):
            parts.insert(r.randint(0, len(parts)), r.choice(("None", "...")))
        key = ", ".join(parts)
        kind = r.random()
        if kind < 0.5:
            self.emit(f"{a}[{key}]", self.fresh())
        elif kind < 0.6:
            self.emit(f"np.take({a}, {self.index(shape[0])}, axis={r.choice(('0', 'None'))})", self.fresh())
        else:
            inner = np.shape(self.value(f"{a}[{key}]")) if self.good(f"{a}[{key}]") else ()
            op = r.choice(("=", "=", "=", "+=", "*="))
            self.emit(f"{a}[{key}] {op} {self.operand(inner)}")

    def reduce(self) -> None:
        name = self.pick()
        if name is None:
            return
        a = self.view(name, 0.4)
        v = np.asarray(self.value(a))
        r = self.rng
        f = r.choices(
            "sum prod max min any all mean argmax argmin count_nonzero ptp".split(), (8, 1, 4, 4, 2, 2, 2, 2, 1, 1, 1)
        )[0]
        options = ""
        if f == "mean" and v.dtype.kind == "c":
            return  # NumPy divides numbers and arrays differently
        if self.chance(0.8):
            options += f", axis={self.axis(v.ndim, not f.startswith('arg'))}"
        if self.chance(0.25):
            options += ", keepdims=True"
        where = self.masks(v.shape)
        if f in ("sum", "prod", "max", "min") and self.chance(0.15):
            options += f", initial={r.choice(('0', '2', '1.0', '-3'))}"
        if where and f in ("sum", "any", "all", "max", "prod", "mean") and self.chance(0.4):
            options += f", where={r.choice(where)}"
        if f in ("sum", "prod", "mean") and self.chance(0.1):
            options += f", dtype='{r.choice(('float64', 'float32', 'int64'))}'"
        sums = (a,) if f in ("sum", "prod", "mean") else ()
        # Which zero is the least of several, or a complex product, hangs on how NumPy walks: + 0 makes it one of them.
        plus = " + 0" if (f in ("max", "min") and v.dtype.kind in "fc") or (f == "prod" and v.dtype.kind == "c") else ""
        if self.chance(0.15) and f not in ("count_nonzero", "ptp"):
            self.emit(f"{a}.{f}({options[2:]}){plus}", self.fresh(), sums, power=f == "prod")
        elif self.chance(0.1) and f in ("sum", "max", "min"):
            g = {"sum": "add", "max": "maximum", "min": "minimum"}[f]
            self.emit(f"np.{g}.reduce({a}{options}){plus}", self.fresh(), sums)
        elif self.chance(0.15) and "keepdims" not in options and f in ("sum", "max", "mean", "argmax"):
            if not plus and (out := self.array()):
                self.emit(f"np.{f}({a}{options}, out={out})", None, sums)
        else:
            target = name if self.chance(0.05) else self.fresh()
            self.emit(f"np.{f}({a}{options}){plus}", target, sums, power=f == "prod")

    def centre(self) -> None:
        """Two passes: a reduction that broadcasts back."""
        if name := self.array(lambda v: v.ndim > 0 and v.dtype.kind != "b"):
            a = self.view(name, 0.2)
            v = np.asarray(self.value(a))
            axis = self.axis(v.ndim, False)
            form = self.rng.choice(("{a} - ({a}.max(axis={x}, keepdims=True) + 0)",
                                    "{a} - {a}.sum(axis={x}, keepdims=True)",
                                    "({a} + 1).sum(axis={x}, keepdims=True) * {a}"))  # fmt: skip
            self.emit(form.format(a=a, x=axis), self.fresh(), (a,) if "sum" in form else ())

    def scan(self) -> None:
        if name := self.array():
            a = self.view(name, 0.4)
            v = np.asarray(self.value(a))
            f = self.rng.choice(
                ("np.cumsum", "np.cumsum", "np.add.accumulate", "np.maximum.accumulate", "np.cumprod", "np.diff")
            )
            if f == "np.diff":
                self.emit(f"np.diff({a})", self.fresh())
                return
            axis = self.axis(v.ndim, False)
            if "accumulate" in f and axis == "None":
                axis = "0"
            plus = " + 0" if f == "np.cumprod" and v.dtype.kind == "c" else ""  # as for `prod`
            self.emit(f"{f}({a}, axis={axis}){plus}", self.fresh(), (a,), power=f == "np.cumprod")

    def product(self) -> None:
        a, b = self.pick(), self.pick()
        if a is None or b is None:
            return
        a, b = self.view(a, 0.3), self.view(b, 0.3)
        r = self.rng
        for _ in range(8):
            x, y = np.shape(self.value(a)), np.shape(self.value(b))
            if x and y and x[-1] == y[-2 if len(y) > 1 else 0]:
                break
            b = self.view(self.pick() or "1", 0.5)
        forms = ["{a} @ {b}", "np.dot({a}, {b})", "np.matmul({a}, {b})", "np.inner({a}, {b}.T)", "np.outer({a}, {b})",
                 "np.tensordot({a}, {b}, 1)"]  # fmt: skip
        na, nb = len(np.shape(self.value(a))), len(np.shape(self.value(b)))
        if not na or not nb or not all(np.isfinite(self.value(t)).all() for t in (a, b)):
            return
        if (na, nb) == (2, 2):
            forms += [
                "np.einsum('ij,jk->ik', {a}, {b})",
                "np.einsum('ij,jk->i', {a}, {b})",
                "np.einsum('ij,jk', {a}, {b})",
            ] * 2
            forms += ["np.einsum('ij->ji', {a})", "np.einsum('ij,ij->', {a}, {a})"]
        if (na, nb) == (1, 1):
            forms += ["np.einsum('i,j->ij', {a}, {b})", "np.einsum('i,i->', {a}, {b})", "np.vdot({a}, {b})"] * 2
        # Which zero a sum of complex products is hangs on BLAS's blocks: + 0 makes it one of them.
        plus = " + 0" if any(np.iscomplexobj(self.value(t)) for t in (a, b)) else ""
        self.emit(f"{r.choice(forms).format(a=a, b=b)}{plus}", self.fresh(), (a, b))

    def join(self) -> None:
        name = self.array()
        if name is None:
            return
        a = self.view(name, 0.3)
        v = np.asarray(self.value(a))
        r = self.rng
        b = self.operand(v.shape, numbers=False)
        axis = self.axis(v.ndim, False)
        x = "0" if axis == "None" else axis
        form = r.choice((
            "np.concatenate([{a}, {b}], axis={axis})", "np.concatenate([{a}, {a}], axis={x})",
            "np.stack([{a}, {b}], axis={x})",
            "np.vstack([{a}, {b}])", "np.hstack([{a}, {a}])", "np.column_stack([{a}, {a}])",
            "np.roll({a}, {k}, axis={axis})",
            "np.roll({a}, {k})", "np.pad({a}, 1)", "np.pad({a}, {k} % 3, constant_values=2)",
            "np.repeat({a}, 2, axis={axis})",
            "np.tile({a}, 2)", "np.flip({a}, axis={axis})", "np.broadcast_to({a}, (2, *{a}.shape))",
            "np.expand_dims({a}, {x})",
            "np.squeeze({a})", "np.moveaxis({a}, 0, -1)", "np.split({a}, 2)[0]",
            "np.concatenate([{a}, {b}], dtype='float32')",
            "np.atleast_2d({a})", "np.rot90({a})", "np.append({a}, {b})", "np.tril({a})", "np.block([{a}, {a}])",
        ))  # fmt: skip
        self.emit(form.format(a=a, b=b, axis=axis, x=x, k=r.randint(-5, 5)), self.fresh())

    def select(self) -> None:
        name = self.array()
        if name is None:
            return
        a = self.view(name, 0.4)
        v = np.asarray(self.value(a))
        b, c = self.operand(v.shape), self.operand(v.shape)
        x = self.axis(v.ndim, False)
        # Zeros of both signs are equal: only a stable sort says which comes first, and which of them is unique is open.
        form = self.rng.choice((
            "np.where({b}, {a}, {c})", "np.where({a}, {b}, 0)", "np.clip({a}, -1, 2)", "np.clip({a}, {b}, None)",
            "{a}.clip(0, 3)",
            "np.clip({a}, 0.5, {c})", "np.sort({a}, axis={x}, kind='stable')", "np.bincount(np.abs({a}).ravel())",
            "np.argsort({a}, axis={x}, kind='stable')",
            "np.bincount({a}, minlength=4)", "np.searchsorted(np.sort({a}.ravel()), {b})", "np.unique({a}) + 0",
            "np.count_nonzero({a})",
            "np.select([{a} > 0, {a} < 0], [{b}, {c}])", "np.isin({a}, [1, 2])", "np.round({a})", "np.nan_to_num({a})",
            "np.array_equal({a}, {a})", "np.allclose({a}, {a})", "np.triu({a})", "np.diag({a})", "np.trace({a})",
            "np.interp(1.5, [0, 3], [0, 3])",
            "np.divmod({a}, 3)", "np.modf({a})", "divmod({a}, 2)[1]",
        ))  # fmt: skip
        self.emit(form.format(a=a, b=b, c=c, x=x), self.fresh(), (a,) if "trace" in form else ())

    def cast(self) -> None:
        if name := self.pick():
            a = self.view(name, 0.3)
            dtype = self.rng.choice(DTYPES)
            v = np.asarray(self.value(a))
            if (
                v.dtype.kind in "fc"
                and np.dtype(dtype).kind in "iu"
                and not (np.isfinite(v).all() and (np.abs(v) < 100).all())
            ):
                return
            if v.dtype.kind == "f" and np.dtype(dtype).kind == "u" and v.size and (v < 0).any():
                return
            self.emit(
                f"{a}.astype('{dtype}'{self.rng.choice(('', '', ', copy=False', ', order=' + repr('F')))})",
                self.fresh(),
            )

    def shrinking(self) -> None:
        """Keeps numbers small, so that more sums are exact."""
        if name := self.array(lambda v: v.dtype.kind in "fiu"):
            form = self.rng.choice(
                ("{a} % 5", "np.sign({a})", "np.clip(np.nan_to_num(np.rint({a})), -4, 4)", "np.remainder({a}, 3)")
            )
            self.emit(form.format(a=name), name if self.chance(0.5) else self.fresh())

    def rough(self) -> None:
        if name := self.pick(lambda v: v.dtype.kind in "fi"):
            a = self.view(name, 0.3)
            v = np.asarray(self.value(a))
            if v.size and not (np.abs(v[np.isfinite(v)]) < 50).all():
                return
            f = self.rng.choice(ROUGH)
            x = self.axis(v.ndim, False)
            form = self.rng.choice((
                "np.{f}({a})", "np.{f}({a}) * 0.5 + {a}", "np.{f}({a}).sum(axis={x})", "({a} / 3).sum(axis={x})",
                "({a} * 0.1).mean(axis={x})",
                "np.var({a}, axis={x})", "np.std({a} / 7, axis={x})", "np.cumsum({a} / 3)",
                "np.{f}(np.abs({a}) + 1).max(axis={x})",
                "np.average({a}, axis={x})", "np.linalg.norm(({a} / 3).ravel())",
                "np.{f}({a}) + np.{f}({a}[..., ::-1])",
            ))  # fmt: skip
            self.emit(form.format(f=f, a=a, x=x), self.fresh(rough=True))

    def method(self) -> None:
        name = self.array()
        if name is None:
            return
        a = self.view(name, 0.4)
        v = np.asarray(self.value(a))
        n = max(v.size, 1)
        if not isinstance(self.value(a), np.ndarray) or not v.ndim or not v.flags.writeable:
            return
        form = self.rng.choice((
            "{a}.fill({s})", "{a}.sort(kind='stable')", "np.copyto({a}, {b})", "np.copyto({a}, {b}, where={a} > 0)",
            "np.put({a}, [0, {k}], {s})",
            "np.putmask({a}, {a} > 0, {s})", "np.place({a}, {a} > 1, [1, 2])", "{a}.flat[{k}] = {s}", "{a}.flat = {s}",
            "np.add.at({a}, [0, 0], 1)", "np.fill_diagonal({a}, {s})", "{a}.real = {s}", "{a}.imag = {s}",
            "{a}.partition(0)",
        ))  # fmt: skip
        if "partition" in form:
            return
        self.emit(form.format(a=a, b=self.operand(v.shape), s=self.scalar(), k=self.rng.randrange(n)))

    def number(self) -> None:
        """Numbers out of arrays, and back in."""
        name = self.array(lambda v: v.size > 0 and v.dtype.kind in "fiub")
        if name is None:
            return
        v = self.names[name]
        where = ", ".join(str(self.rng.randrange(-d, d)) for d in v.shape)
        point = f"{name}[{where}]" if where else f"{name}[()]"
        form = self.rng.choice(
            ("{p}", "float({p})", "{p} + 1", "{p} * {p}", "int({p} > 0)", "{n}.item({k})", "{n}.max() + 0", "len({n})",
             "{n}.tolist()",
             "str({n}.shape)", "{n}.flat[{k}]", "bool({p})")
        )  # fmt: skip
        rough = form in ("{n}.tolist()",)
        if rough:
            return
        self.emit(form.format(p=point, n=name, k=self.rng.randrange(v.size)), self.fresh())

    def look(self) -> None:
        if name := self.pick():
            self.emit(
                self.rng.choice(
                    (f"keep({name})", f"keep({self.view(name)})", f"peek({name})", f"repr({name})", f"{name}.shape")
                )
            )

    def duplicate(self) -> None:
        if name := self.pick():
            form = self.rng.choice(
                ("{a}.copy()", "np.copy({a})", "np.array({a})", "pickled({a})", "deep({a})", "np.asarray({a})",
                 "{a}.copy(order='K')",
                 "np.ascontiguousarray({a})", "np.array({a}, order='F')", "{a}.flatten()", "{a}.view()")
            )  # fmt: skip
            self.emit(form.format(a=self.view(name, 0.4)), self.fresh())

    def drop(self) -> None:
        if self.body is None and len(self.variables()) > 3 and (name := self.pick()):
            self.emit(f"del {name}")


KINDS = (
    ("create", 5), ("binary", 12), ("nested", 6), ("unary", 4), ("ufunc", 3), ("ufunc_out", 4), ("alias", 8),
     ("assign", 14),
    ("mask", 9), ("fancy", 8), ("reduce", 10), ("centre", 2), ("scan", 2), ("product", 4), ("join", 5), ("select",
     5), ("cast", 3),
    ("shrinking", 4), ("rough", 3), ("method", 4), ("number", 3), ("look", 6), ("duplicate", 3), ("drop", 3),
)  # fmt: skip


def generate(seed: int, length: int = 14, large: bool = False) -> Program:
    """The program of a seed (large: most arrays have more than a few elements)."""
    return Generator(seed, length, large).make()
