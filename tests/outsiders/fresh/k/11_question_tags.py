"""Multi-label tagging of forum questions: a network over word counts gives each question its tags out of twelve.

Fault: each data set makes its own index of the tags, from the most to the least frequent in its own samples, so that
some tags have another column in validation than in training. The twin gives the training index to the validation set.

Measured (seeds 0 and 1): reported micro F1 0.731 and 0.784, where the training index gives 0.912 and 0.902; twin
0.912 and 0.902. Five and two of the twelve tags are in another column.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from lecture_lib.debugging.program import Program, Spec

PART = ("labels",)

TAGS = ["python", "java", "sql", "css", "git", "docker", "regex", "numpy", "pandas", "linux", "bash", "rust"]
WORDS = 240


def questions(n: int, seed: int) -> list[dict]:
    rng = np.random.default_rng(seed)
    popularity = np.geomspace(0.4, 0.08, len(TAGS))
    preferred = [rng.choice(WORDS, 12, replace=False) for _ in TAGS]
    found = []
    while len(found) < n:
        tags = np.flatnonzero(rng.random(len(TAGS)) < popularity)
        if not len(tags):
            continue
        words = [rng.choice(preferred[tag], 6) for tag in tags] + [rng.integers(0, WORDS, 20)]
        found.append({"words": np.concatenate(words), "tags": [TAGS[tag] for tag in tags]})
    return found


def index_of(samples: list[dict]) -> dict[str, int]:
    """Tags from the most to the least frequent."""
    counts = Counter(tag for sample in samples for tag in sample["tags"])
    return {tag: i for i, (tag, _) in enumerate(counts.most_common())}


class QuestionDataset(Dataset):
    def __init__(self, samples: list[dict], tag_to_index: dict[str, int] | None = None) -> None:
        self.samples = samples
        self.tag_to_index = tag_to_index or index_of(samples)

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, i: int) -> tuple[torch.Tensor, torch.Tensor]:
        sample = self.samples[i]
        counts = np.bincount(sample["words"], minlength=WORDS)
        target = torch.zeros(len(self.tag_to_index))
        target[[self.tag_to_index[tag] for tag in sample["tags"]]] = 1.0
        return torch.tensor(np.log1p(counts), dtype=torch.float32), target


def micro_f1(logits: torch.Tensor, targets: torch.Tensor) -> float:
    predicted = (logits > 0).float()
    hits = (predicted * targets).sum()
    return (2 * hits / (predicted.sum() + targets.sum()).clamp(min=1)).item()


def build(seed: int, share_index: bool) -> tuple[Program, Spec]:
    samples = questions(1900, seed)
    train = QuestionDataset(samples[:1500])
    val = QuestionDataset(samples[1500:], train.tag_to_index if share_index else None)

    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(WORDS, 64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, len(TAGS)))
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=2e-3, weight_decay=1e-5),
        loss_fn=nn.BCEWithLogitsLoss(),
        train_loader=DataLoader(train, batch_size=32, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(val, batch_size=100),
        metric=micro_f1,
    )
    return program, Spec(task="multi-label", classes=len(TAGS), epochs=10)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, share_index=False)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, share_index=True)
