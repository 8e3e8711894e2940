"""The embedded digits, the split and the loader."""

from __future__ import annotations

import json
import random
import runpy
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from conftest import ROOT
from sklearn.datasets import load_digits as sklearn_digits
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.data import DamagedDataError, TensorLoader, load_digits, stratified_split

ASSETS = ROOT / "assets"


@pytest.fixture
def assets_copy(tmp_path):
    """A folder with both files, to be damaged."""
    for name in ("digits.npz", "digits.json"):
        shutil.copy(ASSETS / name, tmp_path)
    return tmp_path


# ---------------------------------------------------------------- digits


def test_digits_are_scikit_learns():
    digits = load_digits()
    reference = sklearn_digits()
    assert digits.images.dtype == torch.float32
    assert digits.images.shape == (1797, 1, 8, 8)
    assert digits.labels.dtype == torch.int64
    np.testing.assert_array_equal(digits.images.numpy()[:, 0], (reference.images / 16).astype(np.float32))
    np.testing.assert_array_equal(digits.labels.numpy(), reference.target)
    assert (digits.images.min(), digits.images.max()) == (0, 1)


def test_data_id_names_the_file_and_its_checksum():
    checksum = json.loads((ASSETS / "digits.json").read_text())["sha256"]
    assert load_digits().data_id == f"digits-{checksum[:12]}"


def test_description_states_source_licence_and_count():
    description = json.loads((ASSETS / "digits.json").read_text())
    assert "10.24432/C50P49" in description["source"]
    assert "CC BY 4.0" in description["licence"]
    assert description["count"] == len(sklearn_digits().target)
    assert description["bytes"] == (ASSETS / "digits.npz").stat().st_size


def _flip_a_byte(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(_flip_a_byte, id="flipped-byte"),
        pytest.param(lambda content: content[:-1000], id="truncated"),
        pytest.param(lambda content: b"", id="empty"),
    ],
)
def test_damaged_data_is_refused_with_file_sizes_and_remedy(assets_copy, damage):
    file = assets_copy / "digits.npz"
    sound = file.read_bytes()
    file.write_bytes(damage(sound))
    with pytest.raises(DamagedDataError) as caught:
        load_digits(file)
    text = str(caught.value)
    for part in (str(file), f"{len(file.read_bytes())} bytes", f"{len(sound)} bytes", "git checkout"):
        assert part in text
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"sha256": "0"}'], ids=["empty", "no-keys", "list", "no-bytes"])
def test_damaged_description_is_refused(assets_copy, content):
    (assets_copy / "digits.json").write_text(content)
    with pytest.raises(DamagedDataError, match=r"digits\.json.*sha256 and bytes"):
        load_digits(assets_copy / "digits.npz")


@pytest.mark.parametrize("name", ["digits.npz", "digits.json"])
def test_missing_file_is_named_with_the_remedy(assets_copy, name):
    (assets_copy / name).unlink()
    with pytest.raises(FileNotFoundError, match=rf"{name} is missing.*unpack the course's bundle again.*git checkout"):
        load_digits(assets_copy / "digits.npz")


def test_pickled_content_is_never_loaded(assets_copy):
    """Even with a matching checksum."""
    make_digits = runpy.run_path(str(ASSETS / "make_digits.py"))
    np.savez(assets_copy / "digits.npz", images=np.array([{}], dtype=object), labels=np.zeros(1, np.uint8))
    content = (assets_copy / "digits.npz").read_bytes()
    (assets_copy / "digits.json").write_bytes(make_digits["digits_json"](content))
    with pytest.raises(ValueError, match="allow_pickle"):
        load_digits(assets_copy / "digits.npz")


def test_stored_files_are_what_the_script_writes(tmp_path):
    main = runpy.run_path(str(ASSETS / "make_digits.py"))["main"]
    assert main([], folder=tmp_path) == 0
    for name in ("digits.npz", "digits.json"):
        assert (tmp_path / name).read_bytes() == (ASSETS / name).read_bytes()


@pytest.mark.parametrize(
    ("name", "damage", "says"),
    [
        ("digits.npz", _flip_a_byte, "differs from what this script writes"),
        ("digits.json", _flip_a_byte, "differs from what this script writes"),
        ("digits.npz", None, "is missing"),
    ],
    ids=["npz-flipped", "json-flipped", "npz-missing"],
)
def test_check_fails_on_other_files_and_writes_nothing(assets_copy, capsys, name, damage, says):
    main = runpy.run_path(str(ASSETS / "make_digits.py"))["main"]
    assert main(["--check"], folder=assets_copy) == 0
    file = assets_copy / name
    if damage is None:
        file.unlink()
    else:
        file.write_bytes(damage(file.read_bytes()))
    before = {path: path.read_bytes() for path in assets_copy.iterdir()}
    assert main(["--check"], folder=assets_copy) == 1
    assert {path: path.read_bytes() for path in assets_copy.iterdir()} == before
    assert name in (text := capsys.readouterr().err)
    assert says in text


# ---------------------------------------------------------------- split


@pytest.mark.parametrize(
    "fractions",
    [(0.6, 0.2, 0.2), (0.8, 0.2), (0.7, 0.2, 0.1), (0.25,) * 4, (0.01, 0.99)],
    ids=lambda fractions: "-".join(f"{fraction:g}" for fraction in fractions),
)
def test_split_is_complete_disjoint_and_stratified(fractions):
    labels = load_digits().labels
    parts = stratified_split(labels, fractions, seed=0)
    assert len(parts) == len(fractions)
    assert all(part.dtype == torch.int64 and part.ndim == 1 for part in parts)
    assert torch.equal(torch.cat(parts).sort().values, torch.arange(len(labels)))
    whole = torch.bincount(labels)
    for part, fraction in zip(parts, fractions, strict=True):
        assert abs(len(part) - fraction * len(labels)) < 1
        counts = torch.bincount(labels[part], minlength=10)
        # Rounding happens once for each part that is split off.
        assert ((counts - fraction * whole).abs() < len(fractions)).all()


def test_split_depends_on_the_seed_only():
    labels = load_digits().labels
    first = stratified_split(labels, (0.5, 0.5), seed=1)
    torch.manual_seed(9)
    np.random.seed(9)
    again = stratified_split(labels, (0.5, 0.5), seed=1)
    other = stratified_split(labels, (0.5, 0.5), seed=2)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0].sort().values, other[0].sort().values)


@pytest.mark.parametrize("convert", [torch.Tensor.numpy, torch.Tensor.tolist], ids=["array", "list"])
def test_split_takes_labels_as_array_or_list(convert):
    labels = load_digits().labels
    parts = stratified_split(convert(labels), (0.5, 0.5), seed=1)
    for ours, theirs in zip(parts, stratified_split(labels, (0.5, 0.5), seed=1), strict=True):
        assert torch.equal(ours, theirs)


def test_split_refuses_a_single_fraction():
    with pytest.raises(TypeError, match=r"fractions is 0\.8, of type float.*\(0\.8, 0\.2\)"):
        stratified_split(load_digits().labels, 0.8, seed=0)


def _ambient() -> tuple:
    return torch.get_rng_state().tolist(), random.getstate(), str(np.random.get_state(legacy=False))


def test_split_and_loader_leave_the_ambient_streams_alone():
    labels = load_digits().labels
    before = _ambient()
    stratified_split(labels, (0.5, 0.5), seed=1)
    list(TensorLoader(labels, batch_size=100, shuffle=True, seed=3))
    assert _ambient() == before


@pytest.mark.parametrize(
    ("fractions", "says"),
    [
        ((1.0,), "2 or more"),
        ((), "2 or more"),
        ((0.5, 0.4), "sum to 0.9"),
        ((0.6, 0.6), "sum to 1.2"),
        ((1.2, -0.2), "hold 1.2"),
        ((0.0, 1.0), "hold 0.0"),
        ((float("nan"), 0.5), "hold nan"),
    ],
    ids=["one", "none", "too-little", "too-much", "negative", "zero", "nan"],
)
def test_split_refuses_bad_fractions(fractions, says):
    with pytest.raises(ValueError, match=says):
        stratified_split(load_digits().labels, fractions, seed=0)


@pytest.mark.parametrize(
    "labels",
    [
        torch.zeros(10),
        torch.zeros(10, 2, dtype=torch.int64),
        torch.zeros(0, dtype=torch.int64),
        ["cat", "dog"],
        [0.0, 1.0],
    ],
    ids=["float", "one-hot", "empty", "names", "list-of-floats"],
)
def test_split_refuses_what_are_no_class_indices(labels):
    with pytest.raises(ValueError, match=r"integers of shape \[N\]"):
        stratified_split(labels, (0.5, 0.5), seed=0)


def test_split_names_the_class_that_is_too_small_and_its_count():
    labels = torch.tensor([0] * 50 + [7] * 4 + [3] * 50)
    with pytest.raises(ValueError, match=r"class 7 has 4 example\(s\).*needs 5 of each class"):
        stratified_split(labels, (0.6, 0.2, 0.2), seed=0)


def test_a_class_that_rounding_leaves_out_of_a_part_is_refused():
    """4 examples are enough for a quarter on average, not for every rounding of parts of 8, 6 and 12."""
    labels = torch.tensor([0] * 7 + [1] * 4 + [2] * 4 + [3] * 7 + [4] * 4)
    with pytest.raises(ValueError, match=r"has 4 example\(s\): nothing of class \d fell into part 1"):
        stratified_split(labels, (0.3, 0.25, 0.45), seed=0)


def test_five_examples_suffice_for_a_fifth():
    labels = torch.arange(10).repeat(5)
    parts = stratified_split(labels, (0.6, 0.2, 0.2), seed=0)
    assert [torch.bincount(labels[part]).tolist() for part in parts] == [[3] * 10, [1] * 10, [1] * 10]


def test_split_without_scikit_learn_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.model_selection", None)
    with pytest.raises(ImportError, match="pip install scikit-learn"):
        stratified_split(torch.tensor([0, 0, 1, 1]), (0.5, 0.5), seed=0)


# ---------------------------------------------------------------- loader


@pytest.mark.parametrize("drop_last", [False, True], ids=["keep-last", "drop-last"])
@pytest.mark.parametrize("batch_size", [1, 3, 5, 10])
def test_loader_in_order_equals_dataloader(batch_size, drop_last):
    x, y = torch.arange(20.0).reshape(10, 2), torch.arange(10)
    loader = TensorLoader(x, y, batch_size=batch_size, drop_last=drop_last)
    reference = list(DataLoader(TensorDataset(x, y), batch_size=batch_size, drop_last=drop_last))
    batches = list(loader)
    assert len(loader) == len(batches) == len(reference)
    assert loader.batch_size == batch_size
    for ours, theirs in zip(batches, reference, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_shuffled_epochs_hold_every_row_once_together_and_in_a_new_order():
    x, y = torch.arange(100.0).unsqueeze(1) * 2, torch.arange(100)
    loader = TensorLoader(x, y, batch_size=7, shuffle=True, seed=0)
    epochs = []
    for _ in range(2):
        batches = list(loader)
        assert all(torch.equal(a[:, 0], 2.0 * b) for a, b in batches)
        epochs.append(torch.cat([b for _, b in batches]))
        assert torch.equal(epochs[-1].sort().values, y)
    assert not torch.equal(epochs[0], epochs[1])
    assert not torch.equal(epochs[0], y)
    # The same seed gives the same epochs, whatever the ambient stream does.
    torch.manual_seed(123)
    again = TensorLoader(x, y, batch_size=7, shuffle=True, seed=0)
    assert all(torch.equal(torch.cat([b for _, b in again]), epoch) for epoch in epochs)


@pytest.mark.parametrize("shuffle", [False, True], ids=["in-order", "shuffled"])
def test_a_batch_changed_in_place_leaves_the_data_alone(shuffle):
    x = torch.ones(6, 2)
    for (batch,) in TensorLoader(x, batch_size=3, shuffle=shuffle, seed=0 if shuffle else None):
        batch.zero_()
    assert torch.equal(x, torch.ones(6, 2))


@pytest.mark.parametrize(
    ("tensors", "options", "error", "says"),
    [
        ((), {}, ValueError, "no tensors"),
        ((torch.zeros(3), torch.zeros(4)), {}, ValueError, "3, 4 examples"),
        ((torch.zeros(0, 2),), {}, ValueError, "0 examples"),
        ((torch.tensor(1.0),), {}, ValueError, "single number"),
        (([1, 2],), {}, TypeError, "list, not a tensor"),
        ((torch.zeros(3),), {"batch_size": 0}, ValueError, "batch_size is 0"),
        ((torch.zeros(3),), {"batch_size": 4, "drop_last": True}, ValueError, "3 examples, batch_size 4"),
        ((torch.zeros(3),), {"shuffle": True}, ValueError, "needs seed"),
        ((torch.zeros(3),), {"seed": 0}, ValueError, "seed=0 changes nothing without shuffle=True"),
        ((torch.zeros(3),), {"batch_size": 64.0}, TypeError, "batch_size is 64.0, of type float"),
        ((torch.zeros(3),), {"batch_size": "64"}, TypeError, "batch_size is '64', of type str"),
    ],
    ids=["none", "lengths", "empty", "scalar", "list", "batch-size", "no-batch", "no-seed", "seed", "float", "str"],
)
def test_loader_refuses(tensors, options, error, says):
    with pytest.raises(error, match=says):
        TensorLoader(*tensors, **{"batch_size": 2, **options})


# ---------------------------------------------------------------- the package


def test_import_is_cheap():
    """Only what torch brings anyway; plotting and scikit-learn load where they are used."""
    code = (
        "import sys, torch; before = set(sys.modules)\n"
        "import lecture_lib, lecture_lib.data, lecture_lib.training, lecture_lib.debugging\n"
        "heavy = {'sklearn', 'scipy', 'matplotlib.pyplot', 'tqdm', 'ipywidgets', 'torchvision', 'nbgrader'}\n"
        "print(sorted(heavy & (set(sys.modules) - before)))"
    )
    folder = ASSETS.parent
    printed = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == "[]"
