"""The recipe section of 03a on another data set: its cells run as they stand, on small files of the real formats."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import ROOT
from helpers.image_files import write_cifar, write_fashion

from autograders.notebooks import from_text

SETTING = 'DATA_SET = "digits"'


def recipe_cells() -> list[str]:
    """The set-up cells, and the code of the recipe section from the setting to the result."""
    cells = from_text(ROOT / "notebooks" / "03a-training-recipe.py").cells
    setup = [cell.source for cell in cells if "setup" in cell.metadata.get("tags", [])]
    code = [cell.source for cell in cells if cell.cell_type == "code"]
    (first,) = [position for position, source in enumerate(code) if source.startswith(SETTING)]
    (last,) = [position for position, source in enumerate(code) if "test digits:" in source]
    return [*setup, *code[first:last]]


@pytest.mark.parametrize(("name", "shape"), [("fashion-mnist", [1, 28, 28]), ("cifar10", [3, 32, 32])])
def test_another_data_set_goes_through_the_recipe(
    name: str, shape: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / ".cache" / "lecture"
    folder.mkdir(parents=True)
    if name == "fashion-mnist":
        write_fashion(folder)
    else:
        write_cifar(folder, monkeypatch)
    namespace: dict[str, object] = {}
    for source in recipe_cells():
        # Short: what is tested is the path, not the training.
        short = source.replace(SETTING, f'DATA_SET = "{name}"').replace("epochs=8", "epochs=1")
        exec(compile(short.replace("stop=1.0", "stop=1.0, steps=12"), name, "exec"), namespace)
        if "sweep = find_lr" in source:
            assert len(namespace["sweep"].losses) > 3  # type: ignore[attr-defined]
            namespace["sweep"] = SimpleNamespace(suggestion=1e-3)  # images of noise suggest no rate
    examples = 400 if name == "fashion-mnist" else 100
    assert list(namespace["pixels"].shape) == [examples, *shape]  # type: ignore[attr-defined]
    assert len(namespace["history"].rows) == 1  # type: ignore[attr-defined]
    assert namespace["result"].examples == examples // 5  # type: ignore[attr-defined]
    assert f"{name}: {examples * 3 // 5} images to train on" in capsys.readouterr().out


def test_the_setting_is_the_digits_and_a_slip_is_an_error() -> None:
    (cell,) = [source for source in recipe_cells() if source.startswith(SETTING)]
    with pytest.raises(KeyError, match="mnist"):
        exec(cell.replace('"digits"', '"mnist"', 1), {"fashion_mnist": None, "cifar10": None})
