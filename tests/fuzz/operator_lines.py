"""Random lines: creation, operators, assignments, masks, indices. In: choices. Out: lines."""

from __future__ import annotations

import numpy as np

from tests.fuzz.choose import DTYPES
from tests.fuzz.emit import Emitter

BINARY = ("+", "-", "*", "/", "//", "%", "**", "&", "|", "^", "<", "<=", "==", "!=", ">", ">=", "<<")
BINARY_WEIGHTS = (9, 9, 9, 4, 1, 2, 1, 1, 1, 1, 2, 1, 2, 1, 2, 1, 0.3)
TWO = "maximum minimum fmax fmin add subtract multiply divide arctan2 copysign logical_and logical_or hypot".split()
ONE = (
    "negative absolute square sqrt floor ceil trunc rint sign isnan isinf isfinite logical_not positive conjugate "
    "signbit reciprocal invert fabs spacing"
).split()


class OperatorLines(Emitter):
    """Lines of operators and of elements."""

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
