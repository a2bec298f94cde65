"""Grey values, contrast, blur, edges and a histogram of a picture."""

import sys

import numpy as np

SIZES = {"small": 120, "large": 2000}


def blur(picture, weights):
    reach = len(weights) // 2
    padded = np.pad(picture, reach, mode="edge")
    rows, columns = picture.shape
    down = sum(w * padded[i : i + rows, :] for i, w in enumerate(weights))
    return sum(w * down[:, i : i + columns] for i, w in enumerate(weights))


def main(size):
    rng = np.random.default_rng(1)
    picture = rng.integers(0, 256, size=(size, size, 3), dtype=np.uint8)
    colours = picture.astype(np.float64) / 255.0
    grey = colours[..., 0] * 0.299 + colours[..., 1] * 0.587 + colours[..., 2] * 0.114
    low, high = grey.min(), grey.max()
    stretched = np.clip((grey - low) / (high - low), 0.0, 1.0) ** 0.8
    weights = np.array([1.0, 4.0, 6.0, 4.0, 1.0]) / 16.0
    smooth = blur(stretched, weights)
    across = smooth[1:-1, 2:] - smooth[1:-1, :-2]
    down = smooth[2:, 1:-1] - smooth[:-2, 1:-1]
    edges = np.hypot(across, down)
    counts, _ = np.histogram(edges, bins=16, range=(0.0, 1.0))
    marked = np.where(edges > edges.mean() + edges.std(), 255, 0).astype(np.uint8)
    return {"smooth": smooth, "counts": counts, "share": (marked > 0).mean(), "brightness": smooth.mean()}


if __name__ == "__main__":
    found = main(SIZES[sys.argv[1]])
    print(f"share of edges {found['share']:.6f}, brightness {found['brightness']:.6f}")
    print("edges by strength", found["counts"])
