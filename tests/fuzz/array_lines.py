"""Random lines: reductions, scans, products, joins, selections, casts, methods. In: choices. Out: lines."""

from __future__ import annotations

import numpy as np

from tests.fuzz.choose import DTYPES
from tests.fuzz.operator_lines import OperatorLines

ROUGH = "exp log sin cos tanh log1p expm1 sqrt cbrt arctan exp2 log2".split()


class ArrayLines(OperatorLines):
    """Lines of whole arrays, and of variables."""

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
