"""A two-dimensional transform by DFT matrices, with real and imaginary parts apart."""

import numpy as np

KIND = "array"
SMALL = 10
MEDIUM = 170


def initialize(n):
    return (np.random.default_rng(41).standard_normal((n, n)),)


def program(image):
    n = image.shape[0]
    w = np.exp(-2j * np.pi / n) ** np.mod(np.multiply.outer(np.arange(n), np.arange(n)), n)
    spectrum = w @ image @ w.T
    power = spectrum.real**2 + spectrum.imag**2
    back = (w.conj() @ spectrum @ w.conj().T / n**2).real
    phase = np.angle(spectrum[1 : n // 2, 1 : n // 2])
    return spectrum, power.sum(axis=1), back - image < 1e-8, np.cos(phase)
