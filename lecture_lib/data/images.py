"""Image files as a data set: two methods, which is all that a DataLoader asks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")


class TinyImageDataset(Dataset[tuple[Any, int]]):
    """Images from files, read when they are asked for.

    Source: lecture part 2, the Dataset with two methods.

    Args:
        paths: the files.
        labels: the class of each, whole numbers.
        transform: tensor -> what the model gets; default: the tensor itself.

    Raises:
        ValueError: no files, or another number of labels.
        TypeError: a label is not a whole number.
        FileNotFoundError: a file is missing; all are looked for at once, not in mid-epoch.

    """

    def __init__(
        self, paths: Sequence[str | Path], labels: Sequence[int], transform: Callable[[Tensor], Any] | None = None
    ) -> None:
        self.paths, self.labels, self.transform = [Path(path) for path in paths], list(labels), transform
        if not self.paths or len(self.paths) != len(self.labels):
            raise ValueError(
                f"{len(self.paths)} path(s) and {len(self.labels)} label(s); each of one file or more has its label."
            )
        for path, label in zip(self.paths, self.labels, strict=True):
            if isinstance(label, bool) or not isinstance(label, int | np.integer):
                raise TypeError(f"the label of {path} is {label!r}; a class is a whole number, from 0 on.")
        missing = [path for path in self.paths if not path.is_file()]
        if missing:
            raise FileNotFoundError(
                f"{len(missing)} of {len(self.paths)} files are missing, the first is {missing[0]}. Paths are looked "
                f"up from {Path.cwd()}."
            )

    @classmethod
    def from_folder(
        cls, folder: str | Path, transform: Callable[[Tensor], Any] | None = None
    ) -> tuple[TinyImageDataset, list[str]]:
        """The images in the subfolders of a folder, one for each class, and the names of the classes in order.

        Raises:
            FileNotFoundError: there are no images there.

        """
        folder = Path(folder)
        paths = [path for path in sorted(folder.glob("*/*")) if path.suffix.lower() in ENDINGS]
        if not paths:
            raise FileNotFoundError(f"no images in {folder}; it holds a folder for each class, with its image files.")
        names = sorted({path.parent.name for path in paths})
        return cls(paths, [names.index(path.parent.name) for path in paths], transform), names

    def __len__(self) -> int:
        """How many images there are."""
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        """One image, float32 [3, H, W] from 0 to 1 unless the transform makes something else of it, and its label.

        Raises:
            ValueError: the file is no image that Pillow can read.

        """
        from PIL import Image

        path = self.paths[index]
        try:
            with Image.open(path) as file:
                pixels = np.asarray(file.convert("RGB"))
        except OSError as error:
            raise ValueError(
                f"{path} (example {index}) is no image that can be read: {error}. Replace it or leave it out."
            ) from error
        # A copy, because Pillow's array is read-only and torch warns about tensors that share it.
        image = torch.from_numpy(pixels.copy()).permute(2, 0, 1).float() / 255
        return (image if self.transform is None else self.transform(image)), int(self.labels[index])
