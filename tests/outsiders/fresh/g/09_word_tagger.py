"""Tag each word of a sentence with one of eight tags from the word and its neighbours, by convolution.

Fault: `F.dropout(hidden, 0.5)` is called without `training=self.training`, and its default is `training=True`: unlike
`nn.Dropout` it goes on dropping in `eval()`. Validation, and any later use, runs with half of the hidden units off,
gives another answer each time, and looks worse than the model is.

Measured (seeds 0 and 1): validation accuracy 0.734 and 0.714 faulty, 0.838 and 0.821 repaired; loss 0.782 and 0.846
against 0.475 and 0.501. The faulty program's weights, with dropout off, have accuracy 0.840 and 0.824.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("layers",)
EPOCHS = 15
WORDS, TAGS, LENGTH = 60, 8, 12


class Tagger(nn.Module):
    """Embeddings, two convolutions and a linear layer for each word."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, 32)
        self.near = nn.Conv1d(32, 64, 3, padding=1)
        self.far = nn.Conv1d(64, 64, 3, padding=1)
        self.out = nn.Linear(64, TAGS)

    def drop(self, hidden: Tensor) -> Tensor:
        """Dropout against overfitting."""
        return F.dropout(hidden, 0.5, training=self.training)

    def forward(self, words: Tensor) -> Tensor:
        """Logits: (batch, length, tags)."""
        hidden = F.relu(self.near(self.embed(words).transpose(1, 2)))
        hidden = F.relu(self.far(self.drop(hidden)))
        return self.out(self.drop(hidden).transpose(1, 2))


class TaggerDrop(Tagger):
    """The same, with its own dropout."""

    def drop(self, hidden: Tensor) -> Tensor:
        """Dropout against overfitting."""
        return F.dropout(hidden, 0.5)


def _data(count: int, own: Tensor, context: Tensor, generator: torch.Generator) -> TensorDataset:
    words = torch.randint(WORDS, (count, LENGTH), generator=generator)
    scores = own[words]
    scores[:, 1:] += context[words[:, :-1]]
    scores += 0.2 * torch.randn(scores.shape, generator=generator)
    return TensorDataset(words, scores.argmax(-1))


def _loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(outputs.flatten(0, 1), targets.flatten())


def _accuracy(outputs: Tensor, targets: Tensor) -> float:
    return float((outputs.argmax(-1) == targets).float().mean())


def _build(seed: int, kind: type[Tagger]) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    own = 1.5 * torch.randn(WORDS, TAGS, generator=generator)
    context = torch.randn(WORDS, TAGS, generator=generator)
    train = _data(1200, own, context, generator)
    val = _data(400, own, context, generator)
    model = kind()
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=3e-3),
        loss_fn=_loss,
        train_loader=DataLoader(train, 32, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(val, 100),
        metric=_accuracy,
    )
    return program, Spec(task="sequence", classes=TAGS, epochs=EPOCHS)


def make(seed: int) -> tuple[Program, Spec]:
    """The faulty program."""
    return _build(seed, TaggerDrop)


def twin(seed: int) -> tuple[Program, Spec]:
    """The program repaired."""
    return _build(seed, Tagger)
