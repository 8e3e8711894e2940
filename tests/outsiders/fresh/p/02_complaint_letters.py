"""Letters of complaint of 25 to 70 words are sorted by what the writer asks for (refund, repair, exchange, answer): an
embedding, a masked mean and a small network, on at most 20 words of each letter.

Fault: the collate function keeps the first 20 words, which tell the story; what is asked for stands at the end. The
twin keeps the last 20 words.

Measured (seeds 0 and 1): validation accuracy 0.51 and 0.48 (guessing: 0.25), the twin's 0.97 and 0.98.
"""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

from lecture_lib.debugging.program import Program, Spec

PART = "inputs"
SPEC = Spec(task="classification", classes=4, epochs=9, padding_index=0)
LIMIT, STORY, WISH = 20, 200, 15  # words kept, words of the story, words for each wish


def letters(rng, n):
    """Lists of word ids (0 is padding) and the wish of each letter."""
    found = []
    for label in rng.integers(0, 4, n):
        body = 1 + rng.integers(0, STORY, rng.integers(20, 60))
        # In the story all the wishes' words occur now and then, those of the own wish a little more often.
        mentions = np.where(rng.random(len(body)) < 0.12)[0]
        whose = np.where(rng.random(len(mentions)) < 0.35, label, rng.integers(0, 4, len(mentions)))
        body[mentions] = 1 + STORY + whose * WISH + rng.integers(0, WISH, len(mentions))
        end = 1 + rng.integers(0, STORY, rng.integers(5, 11))
        asked = rng.permutation(len(end))[: rng.integers(3, 6)]
        whose = np.where(rng.random(len(asked)) < 0.85, label, rng.integers(0, 4, len(asked)))
        end[asked] = 1 + STORY + whose * WISH + rng.integers(0, WISH, len(asked))
        found.append((np.concatenate([body, end]).tolist(), int(label)))
    return found


class Sorter(nn.Module):
    """Masked mean of word vectors, then a small network."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(1 + STORY + 4 * WISH, 32, padding_idx=0)
        self.head = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, 4))

    def forward(self, ids):
        there = (ids != 0).unsqueeze(-1)
        return self.head((self.words(ids) * there).sum(1) / there.sum(1))


def build(seed, faulty):
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)

    def collate(batch):
        kept = [torch.tensor(ids[:LIMIT] if faulty else ids[-LIMIT:]) for ids, _ in batch]
        return nn.utils.rnn.pad_sequence(kept, batch_first=True), torch.tensor([label for _, label in batch])

    stream = torch.Generator().manual_seed(seed)
    model = Sorter()
    return Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01),
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(letters(rng, 4000), 64, shuffle=True, generator=stream, collate_fn=collate),
        val_loader=DataLoader(letters(rng, 1000), 256, collate_fn=collate),
        metric=lambda outputs, targets: (outputs.argmax(1) == targets).float().mean().item(),
    )


def make(seed):
    return build(seed, True), SPEC


def twin(seed):
    return build(seed, False), SPEC
