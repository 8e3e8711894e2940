"""Rendered shapes: the same from the same seed, with the stated rates, and difficult where they say so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader

from lecture_lib.analysis.interventions import INTERVENTIONS
from lecture_lib.data import Shapes, TensorLoader, TinyImageDataset, shapes
from lecture_lib.data.shapes import CLASSES, NUISANCES, RARE, RATES
from lecture_lib.training import train

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def many() -> Shapes:
    return shapes(6000, seed=0)


def clean(data: Shapes) -> torch.Tensor:
    return ~torch.stack(list(data.flags.values())).any(dim=0)


def test_the_same_seed_gives_the_same_images_and_more_of_them_begin_alike(many: Shapes) -> None:
    fewer, other = shapes(700, seed=0), shapes(700, seed=1)
    assert torch.equal(fewer.images, many.images[:700])
    assert torch.equal(fewer.labels, many.labels[:700])
    assert all(torch.equal(fewer.flags[name], many.flags[name][:700]) for name in NUISANCES)
    assert not torch.equal(fewer.images, other.images)


def test_the_ambient_streams_are_neither_read_nor_moved() -> None:
    torch.manual_seed(0)
    np.random.seed(0)
    before = torch.get_rng_state(), np.random.get_state()[1].copy()
    shapes(10, seed=0)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])


def test_images_are_what_is_promised(many: Shapes) -> None:
    assert (many.images.dtype, list(many.images.shape)) == (torch.float32, [6000, 1, 28, 28])
    assert (many.labels.dtype, many.clean_labels.dtype) == (torch.int64, torch.int64)
    assert 0 <= float(many.images.min()) < float(many.images.max()) <= 1
    assert set(many.labels.tolist()) == set(range(len(CLASSES)))
    assert list(shapes(2, seed=0, size=40).images.shape) == [2, 1, 40, 40]


def test_nuisances_have_their_rates_and_exclude_each_other(many: Shapes) -> None:
    flags = torch.stack(list(many.flags.values()))
    assert int(flags.sum(dim=0).max()) == 1
    for name, rate in RATES.items():
        expected, spread = rate * 6000, (rate * (1 - rate) * 6000) ** 0.5
        assert abs(int(many.flags[name].sum()) - expected) < 4 * spread
    assert torch.equal(many.flags["rare class"], many.labels == RARE)
    wrong = many.labels != many.clean_labels
    assert not (wrong & ~many.flags["ambiguous label"]).any()
    assert float(wrong[many.flags["ambiguous label"]].float().mean()) == pytest.approx(0.5, abs=0.12)


@pytest.mark.parametrize("name", NUISANCES)
def test_a_rate_of_its_own(name: str) -> None:
    others = dict.fromkeys(NUISANCES, 0.0)
    assert int(clean(shapes(200, seed=0, rates=others)).sum()) == 200
    only = shapes(2000, seed=0, rates={**others, name: 0.3})
    assert int(only.flags[name].sum()) == pytest.approx(600, abs=85)
    assert int(clean(only).sum()) == 2000 - int(only.flags[name].sum())


@pytest.mark.parametrize("name", NUISANCES)
def test_the_same_images_without_one_nuisance(many: Shapes, name: str) -> None:
    freed = shapes(6000, seed=0, without=name)
    had = many.flags[name]
    same = (freed.images == many.images).flatten(1).all(dim=1)
    assert bool(same[~had].all())
    assert not bool(same[had].any())
    assert torch.equal(freed.labels[~had], many.labels[~had])
    assert bool(clean(freed)[had].all())
    assert torch.equal(freed.flags[name], torch.zeros_like(had))
    if name == "rare class":
        assert not bool((freed.labels == RARE).any())
    else:
        assert torch.equal(freed.labels[had], many.clean_labels[had])


def test_the_nuisances_are_those_that_have_an_intervention() -> None:
    assert set(NUISANCES) == set(INTERVENTIONS)


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(32 * 49, len(CLASSES))),
    )


def test_a_network_learns_the_plain_images_and_fails_on_each_nuisance(many: Shapes) -> None:
    net = network()
    seen = many.take(~many.flags["threshold"])  # a few faint circles in training would be enough to know them
    loader = TensorLoader(seen.images, seen.labels, batch_size=64, shuffle=True, seed=0)
    held = shapes(3000, seed=99)
    train(
        net,
        loader,
        TensorLoader(held.images[:200], held.labels[:200], batch_size=200),
        torch.optim.Adam(net.parameters(), lr=2e-3),
        F.cross_entropy,
        3,
    )
    with torch.no_grad():
        wrong = net(held.images).argmax(dim=1) != held.labels
    rates = {name: float(wrong[held.flags[name]].float().mean()) for name in NUISANCES}
    plain = float(wrong[clean(held)].float().mean())
    assert plain < 0.04
    # A rare class is hard when there are few of it to learn from; here there are 240.
    assert all(rate > plain + 0.1 for name, rate in rates.items() if name != "rare class"), (plain, rates)
    assert rates["rare class"] > plain


def angles(images: torch.Tensor) -> torch.Tensor:
    """The direction of the strongest wave of about six periods in an image [N, H, W]: that of the stripes."""
    spectrum = torch.fft.fft2(images - images.mean(dim=(1, 2), keepdim=True)).abs()
    frequency = torch.fft.fftfreq(28) * 28
    fx, fy = frequency[None, :].expand(28, 28), frequency[:, None].expand(28, 28)
    ring = ((fx**2 + fy**2).sqrt() - 6).abs() < 1
    best = (spectrum * ring).flatten(1).argmax(dim=1)
    return torch.atan2(fy.flatten()[best], fx.flatten()[best]) % torch.pi


def test_stripes_give_the_label_away_but_for_the_shortcuts() -> None:
    data = shapes(3000, seed=0, empty=1.0, rates={**dict.fromkeys(NUISANCES, 0.0), "background shortcut": 0.5})
    off = (angles(data.images[:, 0]) - torch.pi * data.labels / len(CLASSES)).abs()
    near = torch.minimum(off, torch.pi - off) < 0.2
    assert float(near[clean(data)].float().mean()) > 0.95
    assert float(near[data.flags["background shortcut"]].float().mean()) < 0.05
    random = shapes(1000, seed=0, empty=1.0, background="random", rates=dict.fromkeys(NUISANCES, 0.0))
    assert float(angles(random.images[:, 0]).std()) > 0.6


def test_images_of_a_patient_look_alike_and_time_passes() -> None:
    data = shapes(1200, seed=0, patients=12, drift=0.2, rates=dict.fromkeys(NUISANCES, 0.0), empty=1.0)
    assert data.patients is not None
    assert data.times is not None
    assert sorted(set(data.patients.tolist())) == list(range(12))
    corner = data.images[:, 0].flatten(1)
    centre = torch.stack([corner[data.patients == who].mean(dim=0) for who in range(12)])
    nearest = torch.cdist(corner, centre).argmin(dim=1)
    assert float((nearest == data.patients).float().mean()) > 0.6
    assert torch.equal(data.times, torch.arange(1200.0, dtype=torch.float64))
    brightness = data.images.mean(dim=(1, 2, 3)).double()
    slope = torch.linalg.lstsq(torch.stack([data.times, torch.ones(1200).double()], 1), brightness[:, None]).solution[0]
    assert float(slope) * 1000 == pytest.approx(0.2, abs=0.08)
    assert shapes(5, seed=0).patients is None
    assert shapes(5, seed=0).times is None


def test_some_examples_of_a_set() -> None:
    data = shapes(50, seed=0, patients=3, drift=0.0)
    taken = data.take(torch.tensor([4, 2]))
    assert len(taken) == 2
    assert torch.equal(taken.images, data.images[[4, 2]])
    assert torch.equal(taken.flags["blur"], data.flags["blur"][[4, 2]])
    assert taken.times is not None
    assert taken.times.tolist() == [4, 2]
    assert len(data.take(data.labels == 0)) == int((data.labels == 0).sum())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 0}, "n is 0; pass a whole number, 1 or more"),
        ({"n": 2.5}, "n is 2.5; pass a whole number"),
        ({"size": 4}, "size is 4; pass a whole number, 8 or more"),
        ({"patients": 0}, "patients is 0"),
        ({"rates": {"fog": 0.1}}, "rates has fog; the nuisances are blur, rare"),
        ({"rates": {"blur": 0.9, "threshold": 0.3}}, "the sum of the rates is 1.36"),
        ({"rates": {"blur": -0.1}}, "blur is -0.1; pass a share"),
        ({"empty": 1.5}, "empty is 1.5"),
        ({"background": "blue"}, "background is 'blue'; pass one of by_label, random, plain"),
        ({"without": "fog"}, "without is 'fog'; the nuisances are blur, rare class"),
        (
            {"background": "plain", "rates": {"background shortcut": 0.1}},
            "nothing away, so there are no shortcuts",
        ),
        ({"drift": float("nan")}, "drift is nan"),
    ],
)
def test_what_cannot_be_drawn_is_refused(options: dict[str, Any], message: str) -> None:
    arguments = {"n": 5, "seed": 0, **options}
    with pytest.raises((ValueError, TypeError), match=message.replace("(", r"\(")):
        shapes(**arguments)


# Image files.


@pytest.fixture
def files(tmp_path: Any) -> Any:
    """Two classes with two images each: grey, with a palette, transparent, large; and a file that is no image."""
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
    Image.new("L", (5, 4), 255).save(tmp_path / "dog" / "a.png")
    Image.new("P", (5, 4)).save(tmp_path / "dog" / "b.GIF")
    Image.new("RGBA", (5, 4), (255, 0, 0, 128)).save(tmp_path / "cat" / "a.png")
    Image.new("RGB", (5, 4), (0, 51, 0)).save(tmp_path / "cat" / "b.png")
    (tmp_path / "cat" / "notes.txt").write_text("no image", "utf-8")
    return tmp_path


def test_image_files_are_a_data_set(files: Any) -> None:
    data, names = TinyImageDataset.from_folder(files)
    assert names == ["cat", "dog"]
    assert [len(data), data.labels] == [4, [0, 0, 1, 1]]
    image, label = data[1]
    assert (image.dtype, list(image.shape), label) == (torch.float32, [3, 4, 5], 0)
    assert torch.equal(image[:, 0, 0], torch.tensor([0, 51, 0]) / 255)
    assert torch.equal(data[2][0], torch.ones(3, 4, 5))
    x, y = next(iter(DataLoader(data, batch_size=4, num_workers=2)))
    assert (list(x.shape), y.tolist(), y.dtype) == ([4, 3, 4, 5], [0, 0, 1, 1], torch.int64)
    turned = TinyImageDataset(data.paths, data.labels, transform=lambda image: image.flip(2) * 2)
    assert torch.equal(turned[1][0], image * 2)


def test_what_is_no_image_or_missing_is_named(files: Any) -> None:
    with pytest.raises(FileNotFoundError, match=r"1 of 2 files are missing, the first is .*c\.png"):
        TinyImageDataset([files / "cat" / "a.png", files / "cat" / "c.png"], [0, 0])
    data = TinyImageDataset([files / "cat" / "a.png", files / "cat" / "notes.txt"], [0, 0])
    with pytest.raises(ValueError, match=r"notes\.txt \(example 1\) is no image that can be read"):
        data[1]
    with pytest.raises(ValueError, match=r"1 path\(s\) and 2 label\(s\)"):
        TinyImageDataset([files / "cat" / "a.png"], [0, 1])
    with pytest.raises(TypeError, match=r"the label of .*a\.png is 'cat'; a class is a whole number"):
        TinyImageDataset([files / "cat" / "a.png"], ["cat"])  # type: ignore[list-item]
    with pytest.raises(FileNotFoundError, match=r"no images in .*; it holds a folder for each class"):
        TinyImageDataset.from_folder(files / "cat")
