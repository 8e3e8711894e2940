"""Checkpoints: written whole or not at all."""

from __future__ import annotations

import glob
import os
import pickle
import warnings
import zipfile
import zlib
from collections import Counter, OrderedDict
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from lecture_lib._common.system import is_running


def save_atomically(obj: Any, path: str | Path) -> None:
    """Save with torch.save so that `path` holds either its previous content or all of the new one.

    A process that is killed here can leave a hidden `.NAME.PID.tmp` behind; the next save removes it.
    Source: lecture part 3, save and load; rename(2) replaces a file in one step.

    Args:
        obj: what to save: tensors, numbers and texts in dicts, lists and tuples (a state_dict), which load with
            weights_only=True.
        path: the file; its folder must exist.

    Raises:
        TypeError: something in it would not load with weights_only=True; nothing is written.
        FileNotFoundError: the folder does not exist.
        OSError: the disk is full, or the folder cannot be written. Any error while writing leaves `path` as it was.

    """
    path = Path(path)
    require_plain(obj)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot save {path}: the folder {path.parent} does not exist. Make it first.")
    # In the same folder, because a file can be moved in one step only within its file system. The process id
    # keeps two processes from writing into one file.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            torch.save(obj, file)
            file.flush()
            # Without it a power cut after the move can leave an empty file under the final name.
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    except (OSError, RuntimeError) as error:  # torch's own writer raises RuntimeError on a full disk
        outcome = "The file that was there is unchanged" if path.exists() else "No file was written"
        raise OSError(
            f"cannot save {path}: {str(error)[:200]}. {outcome}. Free space on its disk, or save in another folder."
        ) from error
    finally:
        temporary.unlink(missing_ok=True)
        _remove_leftovers(path)


def require_plain(value: Any, where: str = "checkpoint") -> None:
    """Refuse what weights_only=True would not load.

    Raises:
        TypeError: there is such an object; the message says where in the structure.

    """
    # Exact types, because weights_only=True refuses other subclasses, such as a defaultdict.
    if type(value) in (dict, OrderedDict, Counter):
        for key, part in value.items():
            require_plain(key, f"a key of {where}")
            require_plain(part, f"{where}[{key!r}]")
    elif type(value) in (list, tuple):
        for position, part in enumerate(value):
            require_plain(part, f"{where}[{position}]")
    elif type(value) not in _PLAIN:
        raise TypeError(
            f"{where} is a {type(value).__name__}; a checkpoint holds tensors, numbers and texts, so that it loads "
            "without running code. Store value.item(), value.tolist() or torch.as_tensor(value) instead."
        )


_PLAIN = (type(None), bool, int, float, str, bytes, torch.Tensor, nn.Parameter, torch.Size, torch.dtype, torch.device)


def _sync_folder(folder: Path) -> None:
    """The move itself must reach the disk; only POSIX can synchronise a folder."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _remove_leftovers(path: Path) -> None:
    """Temporary files of processes that died while they wrote."""
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        process = leftover.name.split(".")[-2]
        if process.isdecimal() and not is_running(int(process)):
            leftover.unlink(missing_ok=True)


def load_checkpoint(path: str | Path, *, device: torch.device | str = "cpu") -> Any:
    """Read what `save_atomically` wrote, without running anything that a file could hold.

    Args:
        path: the file.
        device: where its tensors go.

    Raises:
        FileNotFoundError: there is none.
        ValueError: the file is damaged, or holds more than tensors, numbers, text and containers of them.

    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no checkpoint {path}. Check the path, or start a new run.")
    _require_whole(path)
    try:
        with warnings.catch_warnings():  # about formats that are refused anyway
            warnings.simplefilter("ignore")
            return torch.load(path, map_location=device, weights_only=True)
    except pickle.UnpicklingError as error:
        raise ValueError(
            f"{path} is refused: it is damaged or holds objects that run code when loaded ({str(error)[:200]}). "
            "Take the checkpoint of a run that you trust."
        ) from None
    except (RuntimeError, EOFError, OSError) as error:
        raise ValueError(f"{path} is damaged: {str(error)[:200]}. Take an earlier checkpoint, or retrain.") from None


def _require_whole(path: Path) -> None:
    """torch compares no checksums: a flipped bit would load as another weight."""
    try:
        with zipfile.ZipFile(path) as archive:
            broken = archive.testzip()
    except (zipfile.BadZipFile, EOFError, OSError, NotImplementedError, zlib.error) as error:
        raise ValueError(f"{path} is damaged or no checkpoint: {error}. Take an earlier one, or retrain.") from None
    if broken is not None:
        raise ValueError(f"{path} is damaged: its member {broken} fails its checksum. Take an earlier one, or retrain.")


def restore_module(model: nn.Module, state: dict[str, Any]) -> None:
    """Put a state_dict into a model whole, or raise and leave the model as it was.

    Raises:
        ValueError: the state is another model's.

    """
    own = model.state_dict()
    missing, unexpected = own.keys() - state.keys(), state.keys() - own.keys()
    shapes = [
        f"{name} {list(state[name].shape)} instead of {list(value.shape)}"
        for name, value in own.items()
        if name in state and getattr(value, "shape", None) != getattr(state[name], "shape", None)
    ]
    # Compared first: load_state_dict raises only after it has copied every tensor that fits.
    if missing or unexpected or shapes:
        faults = [f"missing {name}" for name in sorted(missing)] + [f"unknown {name}" for name in sorted(unexpected)]
        raise ValueError(
            f"the checkpoint is of another model: {'; '.join((faults + shapes)[:5])}. Build the model as it was when "
            "the checkpoint was written."
        )
    model.load_state_dict(state)


def restore_optimizer(optimizer: Optimizer, state: dict[str, Any]) -> None:
    """Put an optimizer's state (with its class's name) back, or raise and leave it as it was.

    Raises:
        ValueError: the state is another optimizer's.

    """
    # torch compares the sizes of the groups only, and would give Adam's state to SGD.
    own = type(optimizer).__name__
    sizes = [len(group["params"]) for group in optimizer.param_groups]
    saved = [len(group["params"]) for group in state["param_groups"]]
    if state["class"] != own or sizes != saved:
        raise ValueError(
            f"the checkpoint is of another optimizer: {state['class']} over groups of {saved} parameters; this is "
            f"{own} over {sizes}. Make it as it was when the checkpoint was written."
        )
    optimizer.load_state_dict({"state": state["state"], "param_groups": state["param_groups"]})
