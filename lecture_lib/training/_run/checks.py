"""What is refused before it costs time: a run that cannot work."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Iterable, Iterator
from functools import partial
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypeGuard, cast

import torch
from torch import nn
from torch.optim import Optimizer


def is_number(value: object) -> TypeGuard[float]:
    """Whether it is a real number, NumPy's included. To Python, True is one too; as a setting it is a slip."""
    return isinstance(value, Real) and not isinstance(value, bool)


def require_whole(value: object, name: str, least: int) -> None:
    """TypeError for what is not a whole number, ValueError for one below the least."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError(f"{name} is {value!r}, of type {type(value).__name__}; pass a whole number, {least} or more.")
    if value < least:
        raise ValueError(f"{name} is {value}; pass a whole number, {least} or more.")


def require_numbers(**settings: object) -> None:
    """TypeError for settings that are not numbers."""
    for name, value in settings.items():
        if not is_number(value):
            raise TypeError(f"{name} is {value!r}, of type {type(value).__name__}; pass a number, without quotes.")


def warn_caller(message: str) -> None:
    """Warn, pointing at the line outside this package that called train, evaluate or find_lr."""
    frame, level = inspect.currentframe(), 1
    while frame is not None and frame.f_globals.get("__name__", "").startswith(__package__.rpartition(".")[0]):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)


def require_functions(**functions: object) -> None:
    """TypeError for what is neither left out nor a function."""
    for name, function in functions.items():
        if function is not None and not callable(function):
            raise TypeError(f"{name} is {function!r}, of type {type(function).__name__}; pass a function.")


def require_positive(value: object, name: str) -> None:
    """TypeError for what is not a number, ValueError for NaN and for one that is not above 0."""
    if not is_number(value):
        raise TypeError(f"{name} is {value!r}, of type {type(value).__name__}; pass a number above 0, such as 1.0.")
    if math.isnan(value) or value <= 0:
        raise ValueError(f"{name} is {value}; pass a number above 0, such as 1.0, or leave clipping out.")


def require_trainable(model: nn.Module, optimizer: Optimizer) -> None:
    """ValueError when no step of this optimizer could change this model."""
    trainable = {id(parameter) for parameter in model.parameters() if parameter.requires_grad}
    if not trainable:
        raise ValueError(
            "the model has no trainable parameters. Register them (nn.Parameter, nn.ModuleList), and set "
            "requires_grad=True on those that are to learn."
        )
    optimised = optimised_parameters(optimizer)
    if trainable.isdisjoint(map(id, optimised)):
        raise ValueError(
            f"none of the optimizer's {len(optimised)} parameter tensor(s) is one of the model's "
            f"{len(trainable)} trainable ones: it was made for another model. Make it after the model, from "
            "model.parameters()."
        )


def require_all_in_model(model: nn.Module, optimizer: Optimizer) -> None:
    """ValueError when the optimizer steps something that is not the model's, and so differs between processes."""
    own = {id(parameter) for parameter in model.parameters()}
    outside = [list(parameter.shape) for parameter in optimised_parameters(optimizer) if id(parameter) not in own]
    if outside:
        raise ValueError(
            f"the optimizer has {len(outside)} parameter(s) outside the model, the first of shape {outside[0]}: with "
            "several processes each would train its own. Make them attributes of the model."
        )


def optimised_parameters(optimizer: Optimizer) -> list[nn.Parameter]:
    """Every parameter that the optimizer steps, group after group."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def require_batches(loader: Iterable[Any], name: str) -> None:
    """TypeError for data that is not in batches, ValueError for a loader that is empty or can be read only once."""
    require_loader(loader, name)
    # Not `iter(loader) is loader`: a DataLoader's iter() draws from the ambient random stream.
    if isinstance(loader, Iterator):
        raise ValueError(f"{name} is an iterator, used up after one epoch. Pass a loader or a list of batches.")
    parts = loader if isinstance(loader, tuple | list) else [loader]
    if parts and hasattr(parts[0], "shape"):
        shapes = " and ".join(f"{type(part).__name__} {list(getattr(part, 'shape', []))}" for part in parts[:2])
        raise TypeError(
            f"{name} is data ({shapes}), not batches of it. Pass TensorLoader(inputs, labels, batch_size=64)."
        )
    if count_batches(loader) == 0:
        raise ValueError(f"{name} has 0 batches. Look at the split, at batch_size and at drop_last.")


def require_loader(loader: object, name: str) -> None:
    """TypeError for what gives no batches."""
    if loader is None:
        reason = "; train evaluates after each epoch, to keep the best weights" if name == "val_loader" else ""
        raise TypeError(
            f"{name} is None{reason}. Split off a part (lecture_lib.data.stratified_split), or pass batches that the "
            "model does not learn from."
        )
    if not hasattr(loader, "__iter__") and not hasattr(loader, "__getitem__"):
        raise TypeError(
            f"{name} is a {type(loader).__name__}, which gives no batches. Pass TensorLoader(inputs, labels, "
            "batch_size=64), a DataLoader or a list of pairs (inputs, labels)."
        )


def count_batches(loader: Iterable[Any]) -> int | None:
    """The number of batches in an epoch, or None when the loader does not know it."""
    # Asked, not looked up: every DataLoader has __len__, and with an iterable data set it raises.
    try:
        return len(loader)  # type: ignore[arg-type]
    except TypeError:
        return None


def require_loss_function(loss_fn: object) -> None:
    """TypeError for a class or what cannot be called, ValueError for a loss that is no mean."""
    if isinstance(loss_fn, type):
        raise TypeError(f"loss_fn is the class {loss_fn.__name__}. Pass an instance of it: {loss_fn.__name__}().")
    if not callable(loss_fn):
        raise TypeError(f"loss_fn is a {type(loss_fn).__name__}; pass a function of (outputs, labels).")
    settings = loss_fn.keywords if isinstance(loss_fn, partial) else {}
    reduction = settings.get("reduction", getattr(loss_fn, "reduction", "mean"))
    # KLDivLoss calls the mean over examples batchmean.
    if reduction not in ("mean", "batchmean"):
        raise ValueError(
            f"loss_fn has reduction={reduction!r}; a mean over the batch is expected, so that neither the step nor the "
            "reported loss grows with batch_size. Use reduction='mean'."
        )


def require_settings(
    epochs: int,
    accumulate: int,
    patience: int | None,
    checkpoint_every: int | None,
    max_norm: float | None,
    non_finite: str,
) -> None:
    """TypeError and ValueError for counts that count nothing, and for an unknown way to treat what is not finite."""
    require_whole(epochs, "epochs", 1)
    require_whole(accumulate, "accumulate", 1)
    if patience is not None:
        require_whole(patience, "patience", 1)
    if checkpoint_every is not None:
        require_whole(checkpoint_every, "checkpoint_every", 1)
    if max_norm is not None:
        require_positive(max_norm, "max_norm")
    if non_finite not in ("raise", "skip"):
        raise ValueError(f"non_finite is {non_finite!r}; it is 'raise' or 'skip'.")


def resolve_folder(checkpoints: str | Path | None, resume: bool, checkpoint_every: int | None) -> Path | None:
    """The folder for checkpoints, made if need be; an earlier run's is not overwritten."""
    if checkpoints is None:
        if resume or checkpoint_every is not None:
            option = "resume=True" if resume else f"checkpoint_every={checkpoint_every}"
            raise ValueError(f"{option} without checkpoints. Name the folder: checkpoints='runs/first'.")
        return None
    folder = Path(checkpoints)
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"checkpoints {folder} is a file. Name a folder for last.pt and best.pt.")
    if (folder / "last.pt").exists() and not resume:
        raise FileExistsError(
            f"{folder / 'last.pt'} is of an earlier run. Go on from it with resume=True, or name another folder."
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(f"checkpoints {folder} cannot be made: {error}. Name a folder that you may write to.") from error
    return folder


def resolve_device(model: nn.Module, device: torch.device | str | None) -> torch.device:
    """The device for batches: the asked-for one when the model is there, else the model's own."""
    parameter = next(model.parameters(), None)
    own = torch.device("cpu") if parameter is None else parameter.device
    if device is None:
        return own
    try:
        device = torch.device(device)
    except (RuntimeError, TypeError):
        raise ValueError(
            f"device is {device!r}, which torch does not know. Use 'cpu', 'cuda' (an NVIDIA or AMD GPU) or 'mps' "
            "(Apple)."
        ) from None
    if device.type == "cuda" and own.type != "cuda" and not torch.cuda.is_available():
        raise ValueError(
            f"device is '{device}' and torch finds no GPU on this machine. Leave device out, or use 'cpu'."
        )
    # "cuda" means any of them; "cuda:1" is meant as it is said.
    if parameter is not None and (device.type != own.type or device.index not in (None, own.index)):
        raise ValueError(
            f"the model is on {own} and batches would go to {device}. Call model.to('{device}') before you "
            "make the optimizer."
        )
    # The model's own device has an index, and batches are compared with it: "cuda" is not equal to "cuda:0".
    return device if parameter is None else own


def require_parts(model: object, optimizer: object, loss_fn: object) -> None:
    """TypeError for what is not a model, optimizer or loss function; ValueError when they do not fit each other."""
    if _is_optimizer(loss_fn) and callable(optimizer):
        raise TypeError(
            f"optimizer is a {type(optimizer).__name__} and loss_fn a {type(loss_fn).__name__}: they are exchanged. "
            "Pass the optimizer first, then the loss function, or both by name."
        )
    require_model(model)
    require_optimizer(optimizer)
    require_loss_function(loss_fn)
    assert isinstance(model, nn.Module)
    require_trainable(model, cast(Optimizer, optimizer))
    warn_about_replaced_layers(model, cast(Optimizer, optimizer), loss_fn)


def require_model(model: object) -> None:
    """TypeError for what is no nn.Module."""
    if isinstance(model, type):
        raise TypeError(f"model is the class {model.__name__}. Pass an instance of it: {model.__name__}(...).")
    if not isinstance(model, nn.Module):
        name = getattr(model, "__name__", None)
        kind = f"the function {name}" if name else f"a {type(model).__name__}"
        raise TypeError(
            f"model is {kind}; pass a torch.nn.Module, whose parameters can be trained. A function becomes the "
            "forward method of a class that derives from nn.Module."
        )


def require_optimizer(optimizer: object) -> None:
    """TypeError for what is not an optimizer, or one that computes the loss itself, several times a step."""
    if isinstance(optimizer, type):
        raise TypeError(
            f"optimizer is the class {optimizer.__name__}. Pass an instance: {optimizer.__name__}(model.parameters(), "
            "lr=...)."
        )
    if not _is_optimizer(optimizer):
        several = isinstance(optimizer, tuple | list) and any(map(_is_optimizer, optimizer))
        remedy = "one optimizer, with a parameter group for each part" if several else "one of torch.optim's optimizers"
        kind = f"{len(optimizer)} optimizers" if several else f"a {type(optimizer).__name__}"  # type: ignore[arg-type]
        raise TypeError(f"optimizer is {kind}; pass {remedy}, such as torch.optim.AdamW(model.parameters(), lr=1e-3).")
    try:
        # The class's step, because a scheduler replaces the instance's by one of its own.
        inspect.signature(type(optimizer).step).bind(optimizer)  # type: ignore[attr-defined]
    except TypeError:
        raise TypeError(closure_needed(optimizer)) from None
    except ValueError:  # written in C
        return


def closure_needed(optimizer: object) -> str:
    """The sentence for an optimizer like LBFGS."""
    return (
        f"optimizer is {type(optimizer).__name__}, whose step wants a closure that computes the loss anew, often "
        "several times; here a step learns from one gradient. Use SGD, Adam or AdamW, or write the loop for it by hand."
    )


def _is_optimizer(value: object) -> bool:
    return hasattr(value, "param_groups") and callable(getattr(value, "step", None))


def warn_about_replaced_layers(model: nn.Module, optimizer: Optimizer, loss_fn: object) -> None:
    """Warn when the optimizer holds tensors outside the model, and as many in the model, alike, have no optimizer.

    Either alone can be intended, and so can both where the shapes differ: the loss has a parameter of its own, or a
    part of the model is not trained.
    """
    optimised = {id(p): p for p in optimised_parameters(optimizer)}
    registered = {id(p) for owner in (model, loss_fn) if isinstance(owner, nn.Module) for p in owner.parameters()}
    strangers = [p for p in optimised.values() if id(p) not in registered]
    waiting = {name: p for name, p in model.named_parameters() if p.requires_grad and id(p) not in optimised}
    # A new head may have another number of classes, which is the first length of its tensors.
    if strangers and sorted(p.shape[1:] for p in strangers) == sorted(p.shape[1:] for p in waiting.values()):
        left_out = list(waiting)
        listed = ", ".join(left_out[:3]) + (" and more" if len(left_out) > 3 else "")
        warn_caller(
            f"the optimizer holds {len(strangers)} parameters that are not the model's, and not {listed}, which "
            "therefore never change. Was a layer replaced after the optimizer was made? Make the optimizer afterwards."
        )
