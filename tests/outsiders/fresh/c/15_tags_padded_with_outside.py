"""Tags for the words of sentences of very different length, with a bidirectional GRU.

Fault: tokens and tags are filled up by pad_sequence, which fills with 0. For tokens 0 is the padding; for tags it is
"outside", a tag like any other, where -100 is wanted, which loss and metric leave out. Nothing crashes: most of the
loss, and most of the accuracy, comes from padding, which is easily told.

Accuracy after 12 epochs (seeds 0, 1): twin 0.96, 0.99; faulty reports 0.93, 0.93, and has 0.75, 0.76 on words.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

from lecture_lib.debugging.program import Program, Spec

PART = ("labels",)
WORDS, TAGS, LONGEST, IGNORED = 60, 4, 24, -100


def sentences(count: int, rng: np.random.Generator) -> list[tuple[Tensor, Tensor]]:
    """Even words are outside; the tag of an odd one depends on it and on the word before."""
    done = []
    for _ in range(count):
        length = int(min(LONGEST, 3 + rng.exponential(4)))
        words = rng.integers(1, WORDS, size=length)
        before = np.concatenate([[0], words[:-1]])
        tags = np.where(words % 2 == 0, 0, 1 + (words // 7 + before // 20) % 3)
        done.append((torch.tensor(words), torch.tensor(tags)))
    return done


class Tagger(nn.Module):
    """Embedding, GRU in both directions, line."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 24, padding_idx=0)
        self.rnn = nn.GRU(24, 32, batch_first=True, bidirectional=True)
        self.out = nn.Linear(64, TAGS)

    def forward(self, words: Tensor) -> Tensor:
        return self.out(self.rnn(self.embedding(words))[0])


def loss_fn(outputs: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy over the words that have a tag."""
    return F.cross_entropy(outputs.reshape(-1, TAGS), targets.reshape(-1), ignore_index=IGNORED)


def accuracy(outputs: Tensor, targets: Tensor) -> float:
    """Share of right tags among the words that have one."""
    tagged = targets != IGNORED
    return float((outputs.argmax(-1) == targets)[tagged].float().mean())


def build(seed: int, fill: int) -> tuple[Program, Spec]:
    """The program."""
    rng = np.random.default_rng(seed)
    train, val = sentences(900, rng), sentences(300, rng)

    def collate(batch: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        # Everything to one length: the metric puts the batches of validation together.
        ends = torch.zeros(LONGEST, dtype=torch.long)
        words = pad_sequence([ends, *(words for words, _ in batch)], batch_first=True)[1:]
        tags = pad_sequence([ends, *(tags for _, tags in batch)], batch_first=True, padding_value=fill)[1:]
        return words, tags

    torch.manual_seed(seed)
    model = Tagger()
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=3e-3),
        loss_fn=loss_fn,
        train_loader=DataLoader(train, batch_size=32, shuffle=True, collate_fn=collate),
        val_loader=DataLoader(val, batch_size=100, collate_fn=collate),
        metric=accuracy,
    )
    spec = Spec(task="sequence", classes=TAGS, epochs=12, ignore_index=IGNORED, padding_index=0)
    return program, spec


def honest(program: Program, seed: int) -> float:
    """Accuracy over words."""
    program.model.eval()
    right = count = 0
    with torch.no_grad():
        for words, tags in program.val_loader:
            real = words != 0
            right += int((program.model(words).argmax(-1) == tags)[real].sum())
            count += int(real.sum())
    return right / count


def make(seed: int) -> tuple[Program, Spec]:
    """Tags are filled up with the tag 0."""
    return build(seed, 0)


def twin(seed: int) -> tuple[Program, Spec]:
    """Tags are filled up with what is left out."""
    return build(seed, IGNORED)
