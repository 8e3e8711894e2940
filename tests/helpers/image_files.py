"""Small FashionMNIST and CIFAR-10 files in the formats of the originals."""

from __future__ import annotations

import hashlib
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
from torchvision.datasets import CIFAR10

RNG = np.random.default_rng(0)


def write_fashion(folder: Path) -> dict[str, np.ndarray]:
    """IDX files as torchvision keeps them: 400 training and 10 test images."""
    raw = folder / "FashionMNIST" / "raw"
    raw.mkdir(parents=True)
    written = {}
    for part, count in (("train", 400), ("t10k", 10)):
        images = RNG.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        labels = (np.arange(count) % 10).astype(np.uint8)
        (raw / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 2051, count, 28, 28) + images.tobytes())
        (raw / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 2049, count) + labels.tobytes())
        written |= {part: images, f"{part} labels": labels}
    return written


def write_mnist(folder: Path) -> None:
    """IDX files of handwritten digits from scikit-learn, made larger: 1,200 training and 597 test images."""
    from sklearn.datasets import load_digits

    raw = folder / "MNIST" / "raw"
    raw.mkdir(parents=True)
    digits = load_digits()
    large = np.kron(digits.images, np.ones((3, 3))) * 15.9
    images = np.pad(large, ((0, 0), (2, 2), (2, 2))).astype(np.uint8)
    order = np.random.default_rng(0).permutation(len(images))
    for part, rows in (("train", order[:1200]), ("t10k", order[1200:])):
        header = struct.pack(">IIII", 2051, len(rows), 28, 28)
        (raw / f"{part}-images-idx3-ubyte").write_bytes(header + images[rows].tobytes())
        labels = digits.target[rows].astype(np.uint8)
        (raw / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 2049, len(rows)) + labels.tobytes())


def write_cifar(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, np.ndarray]:
    """Pickled batches of 20 images each, whose checksums torchvision is told."""
    base = folder / CIFAR10.base_folder
    base.mkdir(parents=True)
    images, labels = RNG.integers(0, 256, (120, 3072), dtype=np.uint8), [number % 10 for number in range(120)]
    sums = {}
    for position, name in enumerate([*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"]):
        rows = slice(20 * position, 20 * position + 20)
        content = pickle.dumps({"data": images[rows], "labels": labels[rows]})
        (base / name).write_bytes(content)
        sums[name] = hashlib.md5(content).hexdigest()
    meta = pickle.dumps({"label_names": [str(n) for n in range(10)]})
    (base / "batches.meta").write_bytes(meta)
    monkeypatch.setattr(CIFAR10, "train_list", [[f"data_batch_{n}", sums[f"data_batch_{n}"]] for n in range(1, 6)])
    monkeypatch.setattr(CIFAR10, "test_list", [["test_batch", sums["test_batch"]]])
    monkeypatch.setattr(CIFAR10, "meta", {**CIFAR10.meta, "md5": hashlib.md5(meta).hexdigest()})
    return {"images": images.reshape(-1, 3, 32, 32), "labels": np.asarray(labels)}
