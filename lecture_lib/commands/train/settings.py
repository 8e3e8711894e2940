"""What a run is made of: from the command line, or from the record of the run that is resumed."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from ...data.vision import NAMES
from ...experiments import RunRecord
from .models import LOSSES, MODELS, OPTIMIZERS, SCHEDULES


@dataclass(frozen=True)
class Settings:
    """What a run is made of, as its record tells. Default values are those of the command."""

    data: str = "digits"
    model: str = "mlp"
    optimizer: str = "sgd"
    loss: str = "cross-entropy"
    schedule: str = "one-cycle"
    epochs: int = 20
    batch_size: int = 64
    learning_rate: float | None = None
    accumulate: int = 1
    max_norm: float | None = 1.0
    precision: str = "fp32"
    ema: float | None = None
    patience: int | None = None
    seed: int = 0


class CannotTrainError(Exception):
    """The command cannot train; the message is one line for the user."""


def add_arguments(parser: ArgumentParser) -> None:
    """The options of the command; what is left out has the default of `Settings`."""
    usual = Settings()
    add = parser.add_argument
    add("--data", choices=NAMES, help=f"what to learn (default: {usual.data}, which ships with the course)")
    add("--download", action="store_true", help="fetch the data if they are not there")
    add("--cache", type=Path, metavar="DIR", help="where downloaded data are (default: ~/.cache/lecture)")
    add("--model", choices=MODELS, help=f"a multilayer perceptron or a convolutional net (default: {usual.model})")
    add("--optimizer", choices=OPTIMIZERS, help=f"with momentum or decoupled decay (default: {usual.optimizer})")
    add("--loss", choices=LOSSES, help=f"plain, or with labels smoothed by 0.1 (default: {usual.loss})")
    add("--schedule", choices=SCHEDULES, help=f"of the learning rate, with warm-up (default: {usual.schedule})")
    add("--epochs", type=int, metavar="N", help=f"passes over the training data (default: {usual.epochs})")
    add("--batch-size", type=int, metavar="N", help=f"examples in a batch, of all processes ({usual.batch_size})")
    add("--learning-rate", type=float, metavar="RATE", help="peak of the schedule (default: what the finder suggests)")
    add("--accumulate", type=int, metavar="K", help=f"batches in an optimizer step (default: {usual.accumulate})")
    add("--max-norm", type=float, metavar="NORM", help=f"clip the gradient's norm; 0: not ({usual.max_norm})")
    add("--precision", choices=("fp32", "bf16", "fp16", "auto"), help=f"number format (default: {usual.precision})")
    add("--ema", type=float, metavar="DECAY", help="evaluate and keep an average of the weights (default: no)")
    add("--patience", type=int, metavar="N", help="stop after N epochs without a lower validation loss (default: no)")
    add("--seed", type=int, metavar="N", help=f"of split, weights and order (default: {usual.seed})")
    add("--device", help="cpu, cuda, cuda:1 (default: a GPU if there is one)")
    add("--to", type=Path, metavar="DIR", help="folder of the run (default: runs/DATA-seedN)")
    add("--resume", action="store_true", help="go on with the run in that folder, with its settings")


def read_settings(options: Namespace) -> tuple[Settings, Path]:
    """The run's settings and folder; those of its record when it is resumed."""
    chosen = {field.name: getattr(options, field.name) for field in fields(Settings)}
    chosen = {name: value for name, value in chosen.items() if value is not None}
    settings = Settings(**chosen)
    folder = options.to or Path("runs") / f"{settings.data}-seed{settings.seed}"
    if not options.resume:
        if (folder / "last.pt").exists():
            raise CannotTrainError(f"{folder} holds a run. Go on with it: --resume, or name another folder: --to DIR")
        return settings, folder
    if not (folder / "record.json").exists():
        raise CannotTrainError(f"{folder} holds no run to resume (no record.json). Name its folder: --to DIR")
    # A record from before a setting existed was trained with its default.
    recorded = asdict(Settings()) | RunRecord.load(folder / "record.json").config
    for name, value in chosen.items():
        if value != recorded[name]:
            option = f"--{name.replace('_', '-')}"
            raise CannotTrainError(f"{option} is {value} and the run in {folder} has {recorded[name]}; leave it out")
    return Settings(**{field.name: recorded[field.name] for field in fields(Settings)}), folder
