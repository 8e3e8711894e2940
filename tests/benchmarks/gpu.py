"""The recipe on a GPU: step time and memory in fp32, bf16 and fp16, beside the best loop written by hand.

Two workloads at sizes that keep a GPU busy: a residual convolutional net on images 3×64×64, and a transformer encoder
on sequences of 256 tokens; AdamW, the global norm clipped to 1, data on the device. The loop by hand does what the
recipe does in the same number format, waits for the device only at the end, and looks at nothing: no history, no check
that losses and gradients are finite. It is written in two ways (with torch's plain and with its fused AdamW); the
faster one is the reference for the recipe with the same optimizer.

Wall-clock time after the device has finished, median over rounds, the order of the contenders rotated. Without a GPU
nothing is measured and every row says so; `--quick` there runs small sizes on the CPU, to see that the script works.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import harness
import torch
import torch.nn.functional as F
from harness import Row, paired, progress
from torch import Tensor, nn

from lecture_lib.training import train

THROUGHPUT = 0.97
TARGET = f"at least {THROUGHPUT} of the best loop by hand"
FORMATS = ("fp32", "bf16", "fp16")
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
Make = Callable[[], nn.Module]


@dataclass(frozen=True)
class Workload:
    """A model and one batch, of which every step learns."""

    make: Make
    x: Tensor
    y: Tensor


class Residual(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
        )

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, H, W] to the same shape."""
        return F.relu(x + self.body(x))


class Encoder(nn.Module):
    """Tokens [B, T] to logits [B, 10], by the mean over the positions."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(1000, width)
        layer = nn.TransformerEncoderLayer(
            width, width // 64, 4 * width, dropout=0.0, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits [B, 10]."""
        return self.head(self.layers(self.embedding(tokens)).mean(dim=1))


def convolutional(channels: int, blocks: int) -> nn.Module:
    """Images [B, 3, H, W] to logits [B, 10]."""
    stem = [nn.Conv2d(3, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU()]
    body = [Residual(channels) for _ in range(blocks)]
    return nn.Sequential(*stem, *body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10))


def workloads(device: torch.device, small: bool) -> dict[str, Workload]:
    """By name."""
    generator = torch.Generator().manual_seed(0)
    images, side, sequences, length = (4, 8, 2, 16) if small else (256, 64, 64, 256)
    x = torch.randn(images, 3, side, side, generator=generator).to(device)
    tokens = torch.randint(1000, (sequences, length), generator=generator).to(device)
    y = torch.randint(10, (max(images, sequences),), generator=generator).to(device)
    return {
        "convolutional": Workload(partial(convolutional, 8 if small else 128, 1 if small else 8), x, y[:images]),
        "transformer": Workload(partial(Encoder, 64 if small else 768, 1 if small else 8), tokens, y[:sequences]),
    }


class Repeated:
    """The same batch again and again: the loader costs nothing."""

    def __init__(self, workload: Workload, steps: int) -> None:
        self.batch, self.steps = (workload.x, workload.y), steps

    def __len__(self) -> int:
        return self.steps

    def __iter__(self) -> Iterable[Any]:
        return iter([self.batch] * self.steps)


def by_hand(model: nn.Module, optimizer: torch.optim.Optimizer, batches: Repeated, precision: str) -> None:
    """Never waits, except that GradScaler does."""
    device = batches.batch[0].device
    scaler = torch.amp.GradScaler(device.type, enabled=precision == "fp16")
    model.train()
    for x, y in batches:
        with torch.autocast(device.type, DTYPES.get(precision, torch.bfloat16), enabled=precision != "fp32"):
            loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)


def recipe(model: nn.Module, optimizer: torch.optim.Optimizer, batches: Repeated, precision: str) -> None:
    """The same by train; the evaluation is one batch of one example."""
    x, y = batches.batch
    train(model, batches, [(x[:1], y[:1])], optimizer, F.cross_entropy, 1, max_norm=1.0, precision=precision)


def measure(quick: bool) -> list[Row]:
    """All rows."""
    there = torch.cuda.is_available()
    if not there and not quick:
        progress("no GPU: nothing is measured")
        names = [f"{name}, {precision}" for name in ("convolutional", "transformer") for precision in FORMATS]
        return [Row(f"{name}: throughput, recipe / by hand", None, "ratio", TARGET) for name in names]
    device = torch.device("cuda" if there else "cpu")
    steps, rounds = (3, 2) if quick else (60, 7)
    rows = []
    for name, workload in workloads(device, small=not there).items():
        for precision in FORMATS:
            progress(f"{name}, {precision} ...")
            rows += rows_of(f"{name}, {precision}", workload, precision, steps, rounds)
    return rows


def rows_of(name: str, workload: Workload, precision: str, steps: int, rounds: int) -> list[Row]:
    """One workload in one number format."""
    device, batches = workload.x.device, Repeated(workload, steps)
    contenders = {
        f"{who.__name__}, {kind}": contender(who, workload, batches, precision, fused=kind == "fused")
        for who in (by_hand, recipe)
        for kind in ("plain", "fused")
    }
    timings = paired(contenders, rounds=rounds, clock=partial(finished, device))
    rows = []
    for kind in ("plain", "fused"):
        rows += [Row(f"{name}, {kind}: step by hand", timings.seconds(f"by_hand, {kind}") / steps * 1e3, "ms")]
        rows += [Row(f"{name}, {kind}: step of the recipe", timings.seconds(f"recipe, {kind}") / steps * 1e3, "ms")]
    best = min(("plain", "fused"), key=lambda kind: timings.seconds(f"by_hand, {kind}"))
    throughput = timings.ratio(f"by_hand, {best}", f"recipe, {best}")
    what = f"{name}: throughput, recipe / by hand"
    if device.type != "cuda":
        return [*rows, Row(what, throughput, "ratio")]
    rows += [Row(what, throughput, "ratio", TARGET, throughput >= THROUGHPUT)]
    memory = {who: peak(contenders[f"{who}, {best}"]) for who in ("by_hand", "recipe")}
    return rows + [Row(f"{name}: memory, {who}", value / 2**20, "MiB") for who, value in memory.items()]


def contender(
    who: Callable[..., None], workload: Workload, batches: Repeated, precision: str, *, fused: bool
) -> Callable[[], None]:
    """A model of its own, which learns on in every turn."""
    torch.manual_seed(0)
    model = workload.make().to(workload.x.device)
    return partial(who, model, torch.optim.AdamW(model.parameters(), lr=1e-4, fused=fused), batches, precision)


def finished(device: torch.device) -> float:
    """The time when the device has done all that it was asked for."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def peak(call: Callable[[], object]) -> int:
    """Bytes of GPU memory at most."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    call()
    return torch.cuda.max_memory_allocated()


if __name__ == "__main__":
    harness.run(measure)
