"""Functions whose arrays show others, or are others: parts of complex numbers, calls that copy nothing, diagonals."""

from __future__ import annotations

import numpy as np


def writes_parts(z):
    r, q = z.real, np.imag(z)
    for i in range(len(z)):
        r[i] = i
        q[i] -= r[i] * 2
    return r + q, np.sum(r), z * 2


def reads_parts_after_writes(z, n):
    r, q = np.real(z), z.imag
    s = 0.0
    for i in range(n):
        z[i % len(z)] += 1 + 2j
        s += r[0] + q[-1] * r[i % len(z)]
        z[:] = z * 1j
        s += np.sum(r * q)
    return s, r, q


def writes_attributes(z, n):
    for i in range(n):
        z.real[i % len(z)] = i
        z.imag[i % len(z)] += 0.5
        z.T.real[:1] = 3
        z.real[1:] *= 2
        z[2:].imag[...] = z.real[2:]
    z.imag.fill(-1)
    return z


def overlapping(z):
    r, q = z.real, z.imag
    for _i in range(2):
        z[:] = r + 1
        z[1:] = r[:-1] * 1j
        r[:] = q[::-1]
        q[1:] = r[:-1]
        r += q
        z += r
        z.real[:] = z.imag[::-1] + z.real
        z *= z.real
    return z


def one_after_the_other(z):
    r = z.real
    for i in range(1, len(z)):
        z[i] = z[i - 1] + r[i] * 2
        r[i - 1] = r[i] + 1
    for i in range(len(z)):
        z[i] = r[len(z) - 1 - i]
    return r


def parts_of_parts(Z):
    s = 0.0
    for i in range(len(Z)):
        row = Z[i].real
        row[0] = s
        s += Z[i, 0].real + Z.real[i, -1] + row.real[0]
        Z.T.imag[i] = s
        Z.real[i] += 1
    flat = np.reshape(Z.real, Z.size)  # a copy: there are gaps
    flat[0] = 100
    return Z.real, Z.imag.T, flat, Z.real.imag + s


def parts_of_results(z, n):
    t = 0.0
    for i in range(n):
        made = (z * (1 + i)).real
        made[0] = i
        w = z + 1
        shown = w.imag
        shown[1] = 7
        t += made[0] + w[1].imag
    return t, made, shown, w


def parts_in_expressions(z, n):
    s = 0.0
    for i in range(n):
        z[i % len(z)] += 1j
        s += np.sum(z.real) + np.sqrt(z.real**2 + z.imag**2)[0] + z[i % len(z)].real + (z.real @ z.imag)
    return s


def changed_while_evaluated(z):
    def change(k):
        z[k] = 10 + 5j
        return 1.0

    out = np.zeros(len(z))
    for i in range(len(z)):
        out += z.real + change(i)
    return out


def parts_of_reals(x):
    r, s = x.real, np.real(x)
    for i in range(len(x)):
        r[i] += 1
        s[i] *= 2
    return r, np.sum(x.imag), x + x.imag


def tuple_of_parts(z):
    a, b = z.real, z.imag
    for i in range(len(z)):
        a, b = b, a
        a[i] = 1
        b[i] = 2
    return a, b


def given_parts(z):
    def double(part, n):
        for i in range(n):
            part[i] *= 2
        return part

    return double(z.real, len(z)), double(z.imag, 1)


def recursive_parts(part, n):
    if n == 0:
        return part
    part[n - 1] += n
    return recursive_parts(part, n - 1)


def recurses_into_parts(z):
    r = z.real
    for _i in range(2):
        recursive_parts(r, len(z))
        recursive_parts(z.imag, len(z) - 1)
    return r


def not_copied(x):
    s = 0.0
    for _i in range(3):
        a = x.astype(np.float64, copy=False)
        b = np.array(x, copy=None)
        c = np.array(x, float, copy=False)
        d = np.float64(x)
        e = x.conj()
        f = np.asarray(x, order="C")
        a[0] += 1
        b[1] += a[0]
        c[2] += b[1]
        d[3] += c[2]
        e[4] += d[3]
        f[5] += e[4]
        s += x[5]
    return s, a, b, c, d, e, f


def copied_in_spite(x):
    s = 0.0
    for i in range(3):
        a = x.astype(np.float32, copy=False)
        b = np.array(x, np.int64, copy=None)
        c = np.array(x, copy=True)
        d = np.asarray(x, copy=True)
        e = x.astype(float, copy=True)
        a[0] = b[0] = c[0] = d[0] = e[0] = i + 50
        x[1] += 1
        s += x[0] + a[1] + b[1] + c[1] + d[1] + e[1]
    return s


def without_nans(x, y):
    s = 0.0
    for i in range(len(x)):
        x[i] /= y[i]
        a = np.nan_to_num(x, copy=False, nan=i)
        b = np.nan_to_num(y[1:], False)
        s += x[i] + a[0] + np.sum(np.nan_to_num(y * np.nan, copy=True))
        a[0] = 5
        b[0] = np.nan
    return s, a


def into_places(x, y):
    s = 0.0
    for _i in range(3):
        a = np.cumsum(x, out=y)
        b = np.clip(x, 1, 4, x)
        c = y.clip(0, 9, out=y)
        np.add.accumulate(x[1:], out=y[1:])
        s += a[0] + b[1] + c[2] + y[2] + x[0]
        a[0] = b[0] = 2.5
    return s, a, b, c


def views_of_functions(A, n):
    s = 0.0
    for _i in range(n):
        d = np.einsum("ii->i", A)
        d[0] += 1
        t = np.einsum("ij->ji", A)
        t[0, 1] += d[1]
        p = np.linalg.matrix_power(A, 1)
        p[1, 1] += 1
        q = np.diff(A, n=0)
        q[0, 0] -= 2
        s += A[0, 0] + A[1, 0]
    return s, d, t, p, q


def itself(x, how):
    r = x
    for _i in range(1):
        if how == 0:
            r = np.squeeze(x)
        elif how == 1:
            r = np.atleast_1d(x)
        elif how == 2:
            r = x.squeeze()
        elif how == 3:
            r = np.ascontiguousarray(x)
        elif how == 4:
            r = x.astype(float, copy=False)
        elif how == 5:
            r = np.array(x, copy=None)
        elif how == 6:
            r = np.nan_to_num(x, copy=False)
        elif how == 7:
            r = x.conjugate()
        elif how == 8:
            r = np.real(x)
        elif how == 9:
            r = np.asarray(x, order="C")
    return r


def reads_diagonals(A):
    s = 0.0
    for i in range(len(A)):
        d = np.diag(A)
        A[i, i] += 1
        s += d[i] + A.diagonal().sum() + np.broadcast_to(d, (2, len(A)))[1, i]
    return s, np.diag(A).copy(), d * 2, np.diag(d)


def writes_diagonal(A):
    d = np.diag(A)
    for i in range(len(A)):
        d[i] = 0
    return A


def writes_part_of_diagonal(A):
    d = A.diagonal()[1:].T
    for i in range(len(A)):
        A[0, i] = i
        d[...] = 0
    return A


def sorts_diagonal(A):
    for _i in range(2):
        A.diagonal().sort()
    return A


def returns_diagonal(A):
    for i in range(2):
        A[i, i] += 1
    return np.diag(A)


def returns_broadcast(A):
    for i in range(2):
        A[i, i] += 1
    return A, np.broadcast_to(A, (2, *A.shape))


def writes_imaginary_of_reals(A):
    q = A.imag
    for i in range(2):
        q[i] = 1
    return q


def writes_by_recursion(A):
    for _i in range(2):
        recursive_parts(np.diag(A), 2)
    return A


def _recursive_diagonal(A, n):
    if n == 0:
        return np.diag(A)
    return _recursive_diagonal(A, n - 1)


def writes_what_recursion_gives(A):
    for _i in range(2):
        _recursive_diagonal(A, 2)[0] = 1
    return A


def windows(A):
    w = np.lib.stride_tricks.sliding_window_view(A[0], 2)
    for i in range(2):
        w[i] = 1
    return A


def copies_perhaps(A, flag):
    for _i in range(1):
        A[0, 0] += 1
    B = np.nan_to_num(A, copy=flag)
    B[0, 1] = 3
    return A


def overwrites(A):
    s = 0.0
    for i in range(2):
        s += np.median(A[i], overwrite_input=True)
    return s, A
