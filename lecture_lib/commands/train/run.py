"""The program of `lecture train`, from the data to the curve."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from dataclasses import asdict, replace
from pathlib import Path

import torch
from torch import nn
from torch.optim import Optimizer

from ...data import ImageData, TensorLoader, image_data
from ...experiments import RunRecord, content_id, set_seed
from ...training import find_lr, join_processes, leave_processes, train
from ...training._run.history import Epoch, History
from ...training._run.processes import Processes
from ...training.precision import choose_precision
from .models import make_loss, make_model, make_optimizer, make_schedule
from .settings import CannotTrainError, Settings, read_settings


def run(options: Namespace) -> int:
    """Train, and leave the run's folder: record.json, last.pt, best.pt, curve.png and maybe finder.png.

    Returns:
        0 when done; 1 when refused or failed, with the reason printed; 130 when interrupted, with how to go on.

    """
    processes = None
    try:
        device = _device(options.device)
        processes = join_processes(device)
        settings, folder = read_settings(options)
        with processes.explained():
            code = _train(settings, folder, options, device, processes)
            leave_processes()
            return code
    except KeyboardInterrupt:
        print("\ninterrupted; go on with the same command and --resume", file=sys.stderr)
        return 130
    except (CannotTrainError, ValueError, TypeError, OSError, RuntimeError, FloatingPointError) as error:
        where = f" (process {processes.rank})" if processes is not None and processes.count > 1 else ""
        print(f"lecture train{where}: {error}", file=sys.stderr)
        return 1


def _train(settings: Settings, folder: Path, options: Namespace, device: torch.device, processes: Processes) -> int:
    set_seed(settings.seed)
    data = _data(settings, options, processes)
    say = print if processes.first else _silent
    model = make_model(settings.model, data).to(device)
    optimizer = make_optimizer(settings.optimizer, model)
    loss_fn = make_loss(settings.loss)
    set_seed(settings.seed + processes.rank)  # each process has noise of its own
    train_loader = TensorLoader(
        *(part.to(device) for part in data.train), batch_size=settings.batch_size, shuffle=True, seed=settings.seed
    )
    val_loader = TensorLoader(*(part.to(device) for part in data.validation), batch_size=1024)
    say(f"{data.name}: {len(data.train[1])} training and {len(data.validation[1])} validation images")
    precision = choose_precision(settings.precision, device).name
    weights = sum(parameter.numel() for parameter in model.parameters())
    say(f"{settings.model}: {weights:,} weights, {precision} on {device}, {processes.count} process(es)")
    if processes.first:
        # find_lr's picture may be the first file in it, before train makes the folder for its checkpoints.
        folder.mkdir(parents=True, exist_ok=True)
    rate = settings.learning_rate
    if rate is None:
        # One sweep is enough, and all processes must train with the same rate.
        rate = processes.from_first(
            _found_rate(model, train_loader, optimizer, loss_fn, settings, folder) if processes.first else None
        )
        if rate is None:
            raise CannotTrainError(
                f"the finder suggests no rate; look at {folder / 'finder.png'}, pass --learning-rate"
            )
        say(f"the finder suggests {rate:.2g} as the peak of the schedule ({folder / 'finder.png'})")
        settings = replace(settings, learning_rate=rate)

    record = RunRecord.start(
        asdict(settings) | {"processes": processes.count},
        seed=settings.seed,
        data_id=content_id(*data.train, *data.validation),
        precision=precision,
        device=device,
    )
    # A resumed run adds to the rows of its record.
    record.metrics = RunRecord.load(folder / "record.json").metrics if options.resume else []
    history = History()

    def on_epoch(row: Epoch) -> None:
        record.log(**asdict(row))
        record.save(folder / "record.json")
        say(
            f"epoch {row.epoch:>3}/{settings.epochs}  loss {row.train_loss:.4f}  validation {row.val_loss:.4f}  "
            f"accuracy {row.val_metric:.2%}  rate {row.learning_rate:.2g}",
            flush=True,
        )

    if processes.first:
        record.save(folder / "record.json")
    try:
        with record:
            history = train(
                model,
                train_loader,
                val_loader,
                optimizer,
                loss_fn,
                settings.epochs,
                accumulate=settings.accumulate,
                max_norm=settings.max_norm or None,
                precision=settings.precision,
                schedule=make_schedule(settings.schedule, rate),
                ema=settings.ema,
                patience=settings.patience,
                checkpoints=folder,
                resume=options.resume,
                on_epoch=on_epoch,
                # In a log file every update of a bar would be another line.
                progress=sys.stderr.isatty(),
            )
    except BaseException as error:
        # train attaches the finished epochs to the exception; they still make a record and a curve.
        history = getattr(error, "history", history)
        raise
    finally:
        if processes.first:
            _leave(record, history, folder)
    best = history.best
    say(f"best: epoch {best.epoch}, validation loss {best.val_loss:.4f}, accuracy {best.val_metric:.2%}")
    say(f"in {folder}: record.json, best.pt, last.pt, curve.png")
    return 0


def _device(name: str | None) -> torch.device:
    if name is not None:
        return torch.device(name)
    if not torch.cuda.is_available():
        return torch.device("cpu")
    # torchrun starts a process for each GPU and tells it which one.
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))


def _data(settings: Settings, options: Namespace, processes: Processes) -> ImageData:
    """The data; of several processes the first one downloads them for all."""

    def load(download: bool) -> ImageData:
        place = {} if options.cache is None else {"folder": options.cache}
        return image_data(settings.data, download=download, seed=settings.seed, **place)

    data, error = None, None
    if processes.first:
        try:
            data = load(options.download)
        except (OSError, ValueError, RuntimeError) as failed:
            error = str(failed)
    error = processes.from_first(error)
    if error is not None:
        raise CannotTrainError(error)
    # By now the first process has downloaded what was missing.
    return data or load(download=False)


def _found_rate(
    model: nn.Module, loader: TensorLoader, optimizer: Optimizer, loss_fn: nn.Module, settings: Settings, folder: Path
) -> float | None:
    result = find_lr(
        model,
        loader,
        optimizer,
        loss_fn,
        accumulate=settings.accumulate,
        max_norm=settings.max_norm or None,
        precision=settings.precision,
    )
    result.plot().savefig(folder / "finder.png", dpi=120)
    return result.suggestion


def _leave(record: RunRecord, history: History, folder: Path) -> None:
    """Whatever happened, the record says so and the curve shows what was finished."""
    # The block ended without an error, but the run stopped before its last epoch.
    if record.status == "finished" and history.stopped:
        record.finish("stopped")
    if history.rows:
        record.metrics = history.as_rows()
    if history.has_best:
        record.add_checkpoint("best.pt", epoch=history.best.epoch, val_loss=history.best.val_loss)
        history.plot().savefig(folder / "curve.png", dpi=120)
    record.save(folder / "record.json")


def _silent(*_: object, **__: object) -> None:
    """Print nothing: what every process but the first says."""
