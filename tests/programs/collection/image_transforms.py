"""Images turned, flipped, stacked, cut into patches and drawn on; patterns visited by ndindex and ndenumerate."""

import numpy as np

KIND = "array"
SMALL = 8
MEDIUM = 400


def initialize(n):
    return np.random.default_rng(98).integers(0, 256, (n, n, 3), dtype=np.uint8), np.array([0.299, 0.587, 0.114])


def program(image, weights):
    n = image.shape[0]
    grey = (image @ weights).round().astype(np.uint8)
    turned = np.rot90(image, axes=(0, 1))
    mirrored = np.flip(image, axis=1)
    mixed = ((turned.astype(np.uint16) + mirrored) // 2).astype(np.uint8)
    stacked = np.dstack((grey, grey[::-1], np.flipud(grey.T)))
    size = n // 4
    patches = grey[: 4 * size, : 4 * size].reshape(4, size, 4, size).swapaxes(1, 2)
    means = np.zeros((4, 4))
    for at in np.ndindex(4, 4):
        means[at] = patches[at].mean()
    brightest = max(((value, where) for where, value in np.ndenumerate(means)), key=lambda pair: pair[0])[1]
    rows, columns = np.array([1, n // 2]), np.array([0, 2, n - 1])
    image[np.ix_(rows, columns)] = np.iinfo(image.dtype).max
    image[..., 0] = np.bitwise_xor(image[..., 0], 0x0F)
    inverted = np.invert(grey)
    dark = np.argwhere(grey < 12)
    table = np.uint8(255) - (np.arange(256) ** 2 // 256).astype(np.uint8)
    return mixed, stacked.sum(axis=2), means, brightest, inverted, dark, table[grey]
