"""Image data sets by name: the digits that ship with the course, FashionMNIST and CIFAR-10 through torchvision."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .digits import load_digits
from .splits import stratified_split

NAMES = ("digits", "fashion-mnist", "cifar10")
CACHE = Path("~/.cache/lecture")
VALIDATION = 0.2  # of the digits; the large sets are divided likewise by a tenth
LARGE_VALIDATION = 0.1


class MissingDataError(FileNotFoundError):
    """A data set's files are not there, and nobody asked to download them."""


@dataclass(frozen=True)
class ImageData:
    """Images, divided for training and validation. A test set, where there is one, stays untouched.

    Attributes:
        name: of the data set.
        train, validation: images float32 [N, C, H, W] from 0 to 1, and labels int64 [N].
        classes: how many.

    """

    name: str
    train: tuple[Tensor, Tensor]
    validation: tuple[Tensor, Tensor]
    classes: int


def image_data(name: str, *, folder: str | Path = CACHE, download: bool = False, seed: int = 0) -> ImageData:
    """A data set, divided with equal shares of each class.

    Args:
        name: 'digits', 'fashion-mnist' or 'cifar10'.
        folder: where downloaded files are, or go.
        download: fetch them if they are not there.
        seed: of the division: a fifth of the digits, a tenth of the others' training part is for validation.

    Raises:
        ValueError: an unknown name.
        MissingDataError: a file is missing; the message names it and says how to get it.

    """
    if name not in NAMES:
        raise ValueError(f"there are no data {name!r}; pass one of {', '.join(NAMES)}.")
    if name == "digits":
        digits = load_digits()
        images, labels = digits.images, digits.labels
    else:
        images, labels = (fashion_mnist if name == "fashion-mnist" else cifar10)(folder, download=download)
    share = VALIDATION if name == "digits" else LARGE_VALIDATION
    training, validation = stratified_split(labels, [1 - share, share], seed=seed)
    return ImageData(name, (images[training], labels[training]), (images[validation], labels[validation]), 10)


def fashion_mnist(folder: str | Path, *, train: bool = True, download: bool = False) -> tuple[Tensor, Tensor]:
    """60,000 (test: 10,000) grey images of ten kinds of clothes.

    Source: Xiao, Rasul and Vollgraf 2017, arXiv:1708.07747.

    Args:
        folder: torchvision's root, which holds FashionMNIST/raw.
        train: the training part, else the test part.
        download: fetch the files if they are not there.

    Returns:
        Images float32 [N, 1, 28, 28] from 0 to 1, labels int64 [N].

    Raises:
        MissingDataError: a file is missing.
        OSError: the download failed.

    """
    from torchvision.datasets import FashionMNIST

    files = [name.removesuffix(".gz") for name, _ in FashionMNIST.resources]
    places = [Path("FashionMNIST", "raw", name) for name in files]
    data = _load(FashionMNIST, folder, places, FashionMNIST.mirrors[0], train=train, download=download)
    return data.data.unsqueeze(1).float() / 255, data.targets.long()


def cifar10(folder: str | Path, *, train: bool = True, download: bool = False) -> tuple[Tensor, Tensor]:
    """50,000 (test: 10,000) colour images of ten kinds of animals and vehicles.

    Source: Krizhevsky 2009, Learning multiple layers of features from tiny images.

    Args:
        folder: torchvision's root, which holds cifar-10-batches-py.
        train: the training part, else the test part.
        download: fetch the files if they are not there.

    Returns:
        Images float32 [N, 3, 32, 32] from 0 to 1, labels int64 [N].

    Raises:
        MissingDataError: a file is missing or damaged.
        OSError: the download failed.

    """
    from torchvision.datasets import CIFAR10

    files = [name for name, _ in [*CIFAR10.train_list, *CIFAR10.test_list]] + [CIFAR10.meta["filename"]]
    places = [Path(CIFAR10.base_folder, name) for name in files]
    data = _load(CIFAR10, folder, places, CIFAR10.url, train=train, download=download)
    return torch.from_numpy(data.data).permute(0, 3, 1, 2).float() / 255, torch.as_tensor(data.targets)


def _load(kind: Any, folder: str | Path, places: list[Path], source: str, *, train: bool, download: bool) -> Any:
    root = Path(folder).expanduser()
    try:
        return kind(root, train=train, download=download)
    # torchvision raises a RuntimeError where files are missing or damaged.
    except (RuntimeError, OSError) as error:
        missing = [str(root / place) for place in places if not (root / place).exists()]
        if download:
            reason, listing = " ".join(str(error).split()), ", ".join(map(str, places))
            raise OSError(
                f"the download of {kind.__name__} from {source} into {root} failed: {reason}. Try again online, "
                f"or copy the files there: {listing}."
            ) from error
        problem = f"{missing[0]} is missing" if missing else f"a file in {root / places[0].parent} is damaged ({error})"
        raise MissingDataError(
            f"{problem}. Fetch {kind.__name__} with download=True (lecture train: --download) from {source}, or name "
            "the folder that holds it."
        ) from None
