"""The accuracy of the tagger sets the predictions at padding to the padding tag and then counts these positions as
right: short sentences make the tagger look much better than it is.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging import Program, Spec

PART = ("metric",)
PAD, WORDS, TAGS, LENGTH = 0, 30, 6, 24


def sentences(count: int, seed: int, draw: int) -> tuple[Tensor, Tensor]:
    """Words and tags; the tag hangs on the word and on the word before, and annotators disagree at times."""
    shape = np.random.default_rng(seed)
    own, before = shape.integers(1, TAGS, WORDS), shape.integers(0, TAGS - 1, WORDS)
    rng = np.random.default_rng((seed, draw))
    x, y = np.full((count, LENGTH), PAD), np.full((count, LENGTH), PAD)
    for row in range(count):
        length = int(np.clip(rng.gamma(2.0, 4.0), 4, LENGTH))
        words = rng.integers(1, WORDS, length)
        previous = np.concatenate([[PAD], words[:-1]])
        ambiguous = words % 3 == 0
        tags = np.where(ambiguous, (own[words] - 1 + before[previous]) % (TAGS - 1) + 1, own[words])
        wrong = rng.random(length) < 0.2
        tags[wrong] = rng.integers(1, TAGS, wrong.sum())
        x[row, :length], y[row, :length] = words, tags
    return torch.from_numpy(x), torch.from_numpy(y)


class Tagger(nn.Module):
    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, width, padding_idx=PAD)
        self.rnn = nn.GRU(width, width, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * width, TAGS)

    def forward(self, words: Tensor) -> Tensor:
        lengths = (words != PAD).sum(1)
        packed = pack_padded_sequence(self.embed(words), lengths, batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True, total_length=words.shape[1])
        return self.head(states)


def tag_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.cross_entropy(outputs.flatten(0, 1), targets.flatten(), ignore_index=PAD)


def padded_accuracy(outputs: Tensor, targets: Tensor) -> float:
    predicted = outputs.argmax(-1).masked_fill(targets == PAD, PAD)
    return float((predicted == targets).float().mean())


def token_accuracy(outputs: Tensor, targets: Tensor) -> float:
    predicted, real = outputs.argmax(-1), targets != PAD
    return float((predicted == targets)[real].float().mean())


def build(seed: int, metric) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    model = Tagger()
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=6e-3),
        loss_fn=tag_loss,
        train_loader=DataLoader(
            TensorDataset(*sentences(1200, seed, 1)),
            batch_size=50,
            shuffle=True,
            generator=torch.Generator().manual_seed(seed),
        ),
        val_loader=DataLoader(TensorDataset(*sentences(400, seed, 2)), batch_size=100),
        metric=metric,
    )
    return program, Spec(task="sequence", classes=TAGS, epochs=16, ignore_index=PAD, padding_index=PAD)


def honest(program: Program, seed: int) -> float:
    x, y = sentences(400, seed, 2)
    program.model.eval()
    with torch.no_grad():
        return token_accuracy(program.outputs(x), y)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, padded_accuracy)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, token_accuracy)
