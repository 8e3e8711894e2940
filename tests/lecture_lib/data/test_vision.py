"""FashionMNIST and CIFAR-10 from small files in their real formats, and what is said when there are none."""

from __future__ import annotations

import gzip
import hashlib
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
import torch
from helpers.image_files import write_cifar, write_fashion
from torchvision.datasets import CIFAR10, FashionMNIST

from lecture_lib.data import MissingDataError, cifar10, fashion_mnist, image_data


class Quiet(SimpleHTTPRequestHandler):
    """Prints no requests."""

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.mark.parametrize(("train", "part"), [(True, "train"), (False, "t10k")])
def test_fashion_mnist(tmp_path: Path, train: bool, part: str) -> None:
    written = write_fashion(tmp_path)
    images, labels = fashion_mnist(tmp_path, train=train)
    assert (images.dtype, labels.dtype, list(images.shape)) == (torch.float32, torch.int64, [len(labels), 1, 28, 28])
    assert np.array_equal((images[:, 0] * 255).round().numpy(), written[part])
    assert np.array_equal(labels.numpy(), written[f"{part} labels"])


@pytest.mark.parametrize(("train", "rows"), [(True, slice(0, 100)), (False, slice(100, 120))])
def test_cifar10(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, train: bool, rows: slice) -> None:
    written = write_cifar(tmp_path, monkeypatch)
    images, labels = cifar10(tmp_path, train=train)
    assert (images.dtype, labels.dtype, list(images.shape)) == (torch.float32, torch.int64, [len(labels), 3, 32, 32])
    assert np.array_equal((images * 255).round().numpy(), written["images"][rows])
    assert np.array_equal(labels.numpy(), written["labels"][rows])


@pytest.mark.parametrize("name", ["digits", "fashion-mnist"])
def test_a_data_set_by_name_is_divided_with_equal_shares_of_each_class(tmp_path: Path, name: str) -> None:
    write_fashion(tmp_path)
    data = image_data(name, folder=tmp_path, seed=3)
    again, other = image_data(name, folder=tmp_path, seed=3), image_data(name, folder=tmp_path, seed=4)
    total = 1797 if name == "digits" else 400
    assert len(data.train[1]) + len(data.validation[1]) == total
    assert len(data.validation[1]) == pytest.approx(total * (0.2 if name == "digits" else 0.1), abs=6)
    shares = torch.bincount(data.train[1], minlength=10) / len(data.train[1])
    assert shares.min() > 0.07
    assert torch.equal(data.train[0], again.train[0])
    assert not torch.equal(data.train[1], other.train[1])
    rows = torch.cat([data.train[0], data.validation[0]]).flatten(1)
    assert len(rows.unique(dim=0)) >= total - 5  # no image is in both parts; a few digits are equal


def test_what_is_missing_is_named_with_the_way_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match=r"train-images-idx3-ubyte is missing. Fetch FashionMNIST with"):
        fashion_mnist(tmp_path)
    with pytest.raises(MissingDataError, match=r"data_batch_1 is missing. Fetch CIFAR10 with download=True"):
        cifar10(tmp_path)
    with pytest.raises(ValueError, match="there are no data 'mnist'; pass one of digits, fashion-mnist, cifar10"):
        image_data("mnist")


def test_a_missing_file_among_others_and_a_damaged_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_cifar(tmp_path, monkeypatch)
    batch = tmp_path / CIFAR10.base_folder / "data_batch_4"
    content = batch.read_bytes()
    batch.write_bytes(content[:-1] + b"x")
    with pytest.raises(MissingDataError, match=r"a file in .*cifar-10-batches-py is damaged"):
        cifar10(tmp_path)
    batch.unlink()
    with pytest.raises(MissingDataError, match="data_batch_4 is missing"):
        cifar10(tmp_path)


def test_a_download_fetches_the_files_and_a_failed_one_says_where_to_put_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = write_fashion(tmp_path / "server")
    raw = tmp_path / "server" / "FashionMNIST" / "raw"
    resources = []
    for name, _ in FashionMNIST.resources:
        packed = gzip.compress((raw / name.removesuffix(".gz")).read_bytes())
        (raw / name).write_bytes(packed)
        resources.append((name, hashlib.md5(packed).hexdigest()))
    monkeypatch.setattr(FashionMNIST, "resources", resources)
    handler = partial(Quiet, directory=str(raw))
    with ThreadingHTTPServer(("localhost", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setattr(FashionMNIST, "mirrors", [f"http://localhost:{server.server_port}/"])
        images, _ = fashion_mnist(tmp_path / "cache", download=True)
        server.shutdown()
    assert np.array_equal((images[:, 0] * 255).round().numpy(), written["train"])
    # Nobody listens there any more.
    with pytest.raises(OSError, match=r"the download of FashionMNIST from .* failed: .*copy the files there: Fashion"):
        fashion_mnist(tmp_path / "other", download=True)
