"""Images of one size as a stack. In: paths of images. Out: a Source of (image, row, column) or (..., channel).

The one door to Pillow.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from PIL import Image, UnidentifiedImageError

from tilewise.errors import StoreError, message
from tilewise.layout import Box
from tilewise.store import files
from tilewise.store.base import ND, Source, check_box

TOGETHER_BYTES = 4 << 20  # of images that are read in one call


def open_images(paths: Sequence[Any]) -> Source:
    """Images as a stack, in the order of their paths."""
    if not paths:
        raise StoreError(message("a stack has at least one image", got="no paths", cure="Check the pattern"))
    names = [files.full_path(p) for p in paths]
    first = _pixels(names[0])
    stamps = tuple(files.stamp(p) for p in names)
    return Images(tuple(names), first.shape, first.dtype, stamps)


def _pixels(path: str) -> ND:
    with files.explained(path, "read"):
        try:
            with Image.open(path) as image:
                if image.mode == "P":
                    return np.asarray(image.convert("RGB"))
                return np.asarray(image)
        except UnidentifiedImageError as error:
            raise _damaged(path, error) from None
        except (OSError, SyntaxError, ValueError) as error:
            if isinstance(error, OSError) and error.errno:
                raise
            raise _damaged(path, error) from None


def _damaged(path: str, error: Exception) -> StoreError:
    return StoreError(message(f"{path} is damaged, or no image", got=str(error), cure="Restore it, or leave it out"))


class Images(Source):
    """Files of one size and mode; an image is decoded by whoever needs any of it."""

    def __init__(
        self, paths: tuple[str, ...], size: tuple[int, ...], dtype: np.dtype[Any], stamps: tuple[files.Stamp, ...]
    ) -> None:
        self.paths, self.size, self.stamps = paths, size, stamps
        self.shape, self.dtype = (len(paths), *size), np.dtype(dtype)
        one = max(1, int(np.prod(size)) * self.dtype.itemsize)
        self.chunks = (max(1, TOGETHER_BYTES // one), *(max(n, 1) for n in size))

    def fingerprint(self) -> Hashable:
        """All files as they were when they were opened."""
        text = repr((self.paths, self.stamps)).encode()
        return "images", hashlib.blake2b(text, digest_size=16).hexdigest()

    def reads(self, path: str) -> bool:
        """Whether one of its files lies there."""
        return any(p == path or p.startswith(path + os.sep) for p in self.paths)

    def read(self, box: Box, out: ND | None = None) -> ND:
        """Parts of some images."""
        check_box(box, self.shape, self.dtype, out)
        if out is None:
            out = np.empty([hi - lo for lo, hi in box], self.dtype)
        for k in range(*box[0]):
            if files.stamp(self.paths[k]) != self.stamps[k]:
                raise files.changed(self.paths[k])
            pixels = _pixels(self.paths[k])
            if pixels.shape != self.size or pixels.dtype != self.dtype:
                raise StoreError(
                    message(
                        f"images of a stack are alike: the first is {self.size} of {self.dtype}",
                        got=f"{self.paths[k]} of {pixels.shape} of {pixels.dtype}",
                        cure="Leave it out, or convert it",
                    )
                )
            part: Any = tuple(slice(lo, hi) for lo, hi in box[1:])
            out[k - box[0][0]] = pixels[part]
        return out

    def __reduce__(self) -> Any:
        return Images, (self.paths, self.size, self.dtype, self.stamps)

    def __repr__(self) -> str:
        return f"<{len(self.paths)} images, {self.paths[0]} first>"
