"""A bag-of-words network tells favourable reviews from others. Batches of 64 are sorted by length and go through in
four parts, whose gradients are accumulated for one step.

Fault: the gradients are cleared before each of the four parts, so only the last one counts, which holds the longest
reviews. The twin clears them once for each step.

Measured (seeds 0 and 1): validation accuracy 0.79 and 0.79 (loss 0.56 and 0.56), with the twin 0.97 and 0.96 (0.07
and 0.11).
"""

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

from lecture_lib.debugging.program import Program, Spec

PART = "step"
PARTS, SIZE, PAD, WORDS = 4, 16, 0, 400
SPEC = Spec(task="classification", classes=2, epochs=10, accumulate=PARTS, padding_index=PAD)


def reviews(seed, count):
    """Reviews of 3 to 40 words and whether they are favourable. Who writes little writes in other words."""
    rng = np.random.default_rng(seed)
    tone = rng.normal(size=WORDS)
    examples = []
    for _ in range(count):
        length, favourable = int(rng.integers(3, 41)), int(rng.integers(0, 2))
        centre = 40 + 320 * (length - 3) / 37
        near = np.exp(-0.5 * ((np.arange(1, WORDS) - centre) / 60) ** 2)
        chances = near * np.exp((2 * favourable - 1) * tone[1:] * 2.2 / length**0.5)
        words = rng.choice(np.arange(1, WORDS), length, p=chances / chances.sum())
        examples.append((torch.tensor(words), favourable))
    return examples


class ByLength:
    """Batches in fours: shuffled reviews, and within each four sorted by length, so that little is filled up."""

    def __init__(self, lengths):
        self.lengths = torch.tensor(lengths)

    def __len__(self):
        return len(self.lengths) // (PARTS * SIZE) * PARTS

    def __iter__(self):
        for together in torch.randperm(len(self.lengths)).split(PARTS * SIZE)[: len(self) // PARTS]:
            by_length = together[self.lengths[together].argsort()]
            yield from (part.tolist() for part in by_length.split(SIZE))


def collate(examples):
    words, favourable = zip(*examples, strict=True)
    return pad_sequence(words, batch_first=True, padding_value=PAD), torch.tensor(favourable)


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, 32, padding_idx=PAD)
        self.head = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))

    def forward(self, words):
        there = (words != PAD).float()
        return self.head(self.words(words).sum(1) / there.sum(1, keepdim=True).clamp(min=1).sqrt())


def accuracy(outputs, targets):
    return (outputs.argmax(1) == targets).float().mean().item()


def build(seed, clear_each):
    torch.manual_seed(seed)
    examples = reviews(seed, 5120 + 800)
    train, val = examples[:5120], examples[5120:]

    def train_epoch(program):
        program.model.train()
        program.optimizer.zero_grad()
        for index, batch in enumerate(program.train_loader, start=1):
            words, favourable = program.parts(batch)
            if clear_each:
                program.optimizer.zero_grad()
            (program.loss_fn(program.outputs(words), favourable) / PARTS).backward()
            if index % PARTS == 0:
                program.optimizer.step()
                program.optimizer.zero_grad()

    model = Reader()
    program = Program(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-3),
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(train, batch_sampler=ByLength([len(words) for words, _ in train]), collate_fn=collate),
        val_loader=DataLoader(val, batch_size=100, collate_fn=collate),
        train_epoch=train_epoch,
        metric=accuracy,
    )
    return program, SPEC


def make(seed):
    return build(seed, clear_each=True)


def twin(seed):
    return build(seed, clear_each=False)
