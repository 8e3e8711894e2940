"""CosineEmbeddingLoss wants 1 and -1 and gets 1 and 0: pairs labelled 0 cost nothing, only matching pairs count, and
the embedding shrinks to one direction for all signatures.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from lecture_lib.debugging import Program, Spec

PART = ("loss", "labels")
WRITERS, CHANNELS, LENGTH = 160, 2, 24


def signatures(seed: int) -> tuple[Tensor, Tensor]:
    """Pen tracks of many writers, twelve each: the writer's own curve, slanted and shaken."""
    rng = np.random.default_rng(seed)
    time = np.linspace(0, 2 * np.pi, LENGTH)
    waves = rng.normal(0, 1, (WRITERS, 1, CHANNELS, 4))
    phase = rng.uniform(0, 2 * np.pi, (WRITERS, 1, CHANNELS, 4)) + rng.normal(0, 0.35, (WRITERS, 12, CHANNELS, 4))
    track = (waves[..., None] * np.sin(np.arange(1, 5)[:, None] * time + phase[..., None])).sum(-2)
    track += rng.normal(0, 3.0, (WRITERS, 12, CHANNELS, 1)) * time / 6 + rng.normal(0, 0.4, track.shape)
    return torch.tensor(track / 2.3, dtype=torch.float32).flatten(0, 1), torch.arange(WRITERS).repeat_interleave(12)


class Pairs(Dataset):
    """Every other pair shows the same writer twice."""

    def __init__(self, tracks: Tensor, writers: Tensor, count: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.tracks = tracks
        self.first = rng.integers(0, len(tracks), count)
        self.second = np.empty(count, dtype=int)
        for i, one in enumerate(self.first):
            same = (writers == writers[one]).numpy()
            allowed = same & (np.arange(len(same)) != one) if i % 2 == 0 else ~same
            self.second[i] = rng.choice(np.flatnonzero(allowed))

    def __len__(self) -> int:
        return len(self.first)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        pair = torch.stack([self.tracks[self.first[index]], self.tracks[self.second[index]]])
        return pair, torch.tensor(1.0 if index % 2 == 0 else 0.0)


class Siamese(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv1d(CHANNELS, 24, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool1d(2),
            nn.Conv1d(24, 32, 3, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(32 * LENGTH // 2, width),
        )

    def forward(self, pairs: Tensor) -> Tensor:
        return self.encoder(pairs.flatten(0, 1)).unflatten(0, (-1, 2))


def as_given(targets: Tensor) -> Tensor:
    return targets


def as_signs(targets: Tensor) -> Tensor:
    return 2 * targets - 1


def pair_loss(convert: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        return nn.functional.cosine_embedding_loss(outputs[:, 0], outputs[:, 1], convert(targets), margin=0.3)

    return loss


def area_under_curve(outputs: Tensor, targets: Tensor) -> float:
    similarity = nn.functional.cosine_similarity(outputs[:, 0], outputs[:, 1])
    return float(roc_auc_score((targets > 0.5).numpy(), similarity.numpy()))


def build(seed: int, convert: Callable[[Tensor], Tensor]) -> tuple[Program, Spec]:
    tracks, writers = signatures(seed)
    old = writers < 120
    torch.manual_seed(seed)
    model = Siamese()
    program = Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1),
        loss_fn=pair_loss(convert),
        train_loader=DataLoader(
            Pairs(tracks[old], writers[old], 3000, seed),
            batch_size=50,
            shuffle=True,
            generator=torch.Generator().manual_seed(seed),
        ),
        val_loader=DataLoader(Pairs(tracks[~old], writers[~old], 600, seed + 1), batch_size=200),
        metric=area_under_curve,
    )
    return program, Spec(epochs=12)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, as_given)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, as_signs)
