"""A picture with stripes, filtered in the frequency domain."""

import sys

import numpy as np

SIZES = {"small": 96, "large": 1_536}


def main(size):
    rng = np.random.default_rng(6)
    y, x = np.meshgrid(np.arange(size), np.arange(size), indexing="ij")
    picture = np.exp(-((x - size / 2) ** 2 + (y - size / 3) ** 2) / (2.0 * (size / 8) ** 2))
    noisy = picture + 0.5 * np.sin(2.0 * np.pi * x / 6.0) + 0.1 * rng.standard_normal((size, size))
    spectrum = np.fft.fftshift(np.fft.fft2(noisy))
    radius = np.hypot(x - size / 2, y - size / 2)
    keep = 1.0 / (1.0 + (radius / (size / 16.0)) ** 4)
    filtered = np.fft.ifft2(np.fft.ifftshift(spectrum * keep)).real
    power = np.log1p(np.abs(spectrum))
    error = np.sqrt(((filtered - picture) ** 2).mean())
    return {"filtered": filtered, "error": error, "power": power.mean(), "peak": filtered.max()}


if __name__ == "__main__":
    found = main(SIZES[sys.argv[1]])
    print(f"error {found['error']:.6f}, mean power {found['power']:.6f}, peak {found['peak']:.6f}")
