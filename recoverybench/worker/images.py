"""Labelled images as a random-access source, for the standard workloads that see.

It imports neither jax nor grain, so a data file can be checked before a worker starts.
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Final

import numpy as np

from recoverybench import errors
from recoverybench.worker import text

SHIPPED_IMAGES: Final = "digits.npz"
"""The images in `workloads/data/`, used when the user gives no file."""

_ALLOWED: Final = (
    "an .npz file with `images` (uint8 [n, height, width] or [n, height, width, channels]) "
    "and `labels` (n whole numbers from 0)"
)


class Images:
    """Images of one size, and their labels.

    Pixels are float32 and go from -1 (0) to 1 (the largest value of the file). An image is
    brought to the size that is asked for by taking the nearest pixel, and to the number of
    channels by repeating its own: it gets larger, and shows no more.
    """

    def __init__(
        self, path: Path, size: int, channels: int, classes: int, minimum: int = 1
    ) -> None:
        """Read `path`.

        Args:
            path: an ``.npz`` with the arrays ``images`` and ``labels``.
            size: height and width of a record's image, pixels.
            channels: of a record's image; the file's number has to divide it.
            classes: labels lie below it.
            minimum: images that there have to be (a batch, say).

        Raises:
            UsageError: the file cannot be read, or does not hold that.
        """
        images, labels = _arrays(path)
        if len(images) < minimum:
            raise _refused(path, f"at least {minimum} images; it has {len(images)}")
        if channels % images.shape[3]:
            found = images.shape[3]
            raise _refused(path, f"images whose channels divide {channels}; they have {found}")
        if labels.min() < 0 or labels.max() >= classes:
            found = labels.max()
            raise _refused(path, f"labels from 0 to {classes - 1}; it has one of {found}")
        self._pixels = images
        self._labels = labels.astype(np.int32)
        self._scale = np.float32(2 / max(1, int(images.max())))
        height, width = images.shape[1:3]
        self._rows = (np.arange(size) * height // size)[:, None]
        self._columns = np.arange(size) * width // size
        self._repeats = channels // images.shape[3]

    def __len__(self) -> int:
        """The number of images."""
        return len(self._pixels)

    def __getitem__(self, index: int) -> dict[str, np.ndarray]:
        """Image `index`.

        Returns:
            ``{"images": float32 [size, size, channels], "labels": int32 scalar}``.
        """
        if not 0 <= index < len(self):
            raise IndexError(f"image {index} of {len(self)}")
        image = self._pixels[index][self._rows, self._columns]
        pixels = image.astype(np.float32) * self._scale - np.float32(1)
        if self._repeats > 1:
            pixels = np.tile(pixels, (1, 1, self._repeats))
        return {"images": pixels, "labels": self._labels[index, ...]}


def _arrays(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Images as uint8 [n, height, width, channels], and labels as whole numbers [n]."""
    content = text.read(path)
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            images, labels = file["images"], file["labels"]
    except (ValueError, KeyError, OSError, zipfile.BadZipFile, TypeError, EOFError):
        raise _refused(path, _ALLOWED) from None
    if images.ndim == 3:
        images = images[..., None]
    pictures = images.dtype == np.uint8 and images.ndim == 4 and images.size > 0
    if not pictures or labels.shape != images.shape[:1] or labels.dtype.kind not in "iu":
        raise _refused(path, _ALLOWED)
    return images, labels


def _refused(path: Path, allowed: str) -> errors.UsageError:
    return errors.bad_value("data", str(path), allowed)
