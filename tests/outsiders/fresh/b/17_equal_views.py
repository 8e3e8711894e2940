"""The augmentation of contrastive learning takes a fresh generator with the example's own seed at each call: the two
views of an example are equal, there is nothing to become invariant to, and retrieval looks perfect.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from lecture_lib.debugging.program import Program, Spec

PART = ("inputs",)
EPOCHS, LENGTH = 20, 48


class Views(Dataset[tuple[Tensor, int]]):
    """Two random views of each curve: cut out, scaled, blotted and in noise."""

    def __init__(self, curves: Tensor, seed: int, fresh: bool) -> None:
        self.curves = curves
        self.seed = seed
        self.stream = None if fresh else torch.Generator().manual_seed(seed)

    def generator(self, index: int) -> torch.Generator:
        return self.stream or torch.Generator().manual_seed(self.seed + index)

    def view(self, index: int) -> Tensor:
        generator = self.generator(index)
        start = int(torch.randint(0, 5, (1,), generator=generator))
        found = self.curves[index, start : start + LENGTH] * (0.6 + 0.8 * torch.rand(1, generator=generator))
        found = found + 0.25 * torch.randn(LENGTH, generator=generator)
        blot = int(torch.randint(0, LENGTH - 8, (1,), generator=generator))
        found[blot : blot + 8] = 0.0
        return found

    def __len__(self) -> int:
        return len(self.curves)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.stack([self.view(index), self.view(index)]), index


class Encoder(nn.Module):
    """Unit vectors for both views of a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(LENGTH, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 24))

    def forward(self, views: Tensor) -> Tensor:
        return F.normalize(self.body(views), dim=-1)


def contrast(outputs: Tensor, _: Tensor) -> Tensor:
    """Each view has to find the other one among those of the batch."""
    logits = outputs[:, 0] @ outputs[:, 1].T / 0.1
    right = torch.arange(len(logits))
    return 0.5 * (F.cross_entropy(logits, right) + F.cross_entropy(logits.T, right))


def retrieval(outputs: Tensor, _: Tensor) -> float:
    """How often the other view is the nearest of all."""
    nearest = (outputs[:, 0] @ outputs[:, 1].T).argmax(1)
    return float((nearest == torch.arange(len(nearest))).float().mean())


def curves(count: int, seed: int) -> Tensor:
    """Smooth random curves."""
    waves = torch.randn(count, 1, LENGTH + 4 + 16, generator=torch.Generator().manual_seed(seed))
    smooth = F.conv1d(waves, torch.hann_window(17).view(1, 1, -1)).squeeze(1)
    return smooth / smooth.std()


def honest(program: Program) -> float:
    """Retrieval between views that are drawn independently."""
    views = torch.stack([view for view, _ in Views(curves(300, 99), 99, fresh=False)])
    with torch.no_grad():
        return retrieval(program.outputs(views), views)


def build(seed: int, fresh: bool) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    train, val = Views(curves(1800, seed), seed, fresh), Views(curves(300, seed + 1000), seed, fresh)
    model = Encoder()
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=2e-3),
        loss_fn=contrast,
        train_loader=DataLoader(train, batch_size=60, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader([val[i] for i in range(len(val))], batch_size=60),
        metric=retrieval,
    )
    return program, Spec(epochs=EPOCHS, couples_samples=True)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, fresh=True)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, fresh=False)
