"""An encoder and a decoder (two GRUs with attention) rewrite dates such as '4 mar 1987' as '1987-03-04', letter by
letter. The decoder is taught with the true letters so far.

Fault: the letters given to the decoder and those asked of it are the same, unshifted, as for models that shift inside,
so at each place the decoder is shown the letter it is to give, and copies. The twin shifts by one.

Measured (seeds 0 and 1): the faulty program reports an accuracy of 1.000 and 1.000 by letter, but writing on its own it
gets 0 of 1,000 fresh dates right; the twin reports 1.000 and 1.000 and gets all of them right.
"""

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

from lecture_lib.debugging.program import Program, Spec

PART = ("labels", "inputs")
LETTERS = "_<> 0123456789-abcdefghijklmnopqrstuvwxyz"
PAD, START, END = 0, 1, 2
MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
SPEC = Spec(task="sequence", classes=len(LETTERS), epochs=8, ignore_index=PAD, padding_index=PAD)


def ids(text):
    return torch.tensor([LETTERS.index(letter) for letter in text])


def date(rng):
    day, month, year = rng.integers(1, 29), rng.integers(0, 12), rng.integers(1950, 2030)
    source = f"{day} {MONTHS[month]} {year}" if rng.random() < 0.5 else f"{MONTHS[month]} {day} {year}"
    return ids(source), ids(f"<{year}-{month + 1:02d}-{day:02d}>")


def collate_unshifted(samples):
    source = pad_sequence([s for s, _ in samples], batch_first=True, padding_value=PAD)
    target = pad_sequence([t for _, t in samples], batch_first=True, padding_value=PAD)
    return (source, target), target.clone()


def collate_shifted(samples):
    source = pad_sequence([s for s, _ in samples], batch_first=True, padding_value=PAD)
    target = pad_sequence([t for _, t in samples], batch_first=True, padding_value=PAD)
    return (source, target[:, :-1]), target[:, 1:].clone()


class Rewriter(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.letters = nn.Embedding(len(LETTERS), 32, padding_idx=PAD)
        self.encoder = nn.GRU(32, width // 2, batch_first=True, bidirectional=True)
        self.decoder = nn.GRU(32, width, batch_first=True)
        self.out = nn.Linear(2 * width, len(LETTERS))

    def forward(self, source, so_far):
        memory, last = self.encoder(self.letters(source))
        start = torch.cat([last[0], last[1]], dim=1).unsqueeze(0)
        states, _ = self.decoder(self.letters(so_far), start)
        scores = (states @ memory.transpose(1, 2)).masked_fill((source == PAD).unsqueeze(1), -1e9)
        return self.out(torch.cat([states, scores.softmax(-1) @ memory], dim=-1))

    @torch.no_grad()
    def write(self, source, length=11):
        """Letter by letter from the start sign."""
        so_far = torch.full((len(source), 1), START)
        for _ in range(length):
            so_far = torch.cat([so_far, self(source, so_far)[:, -1].argmax(-1, keepdim=True)], dim=1)
        return so_far


def forward(model, inputs):
    return model(*inputs)


def loss_fn(outputs, targets):
    return nn.functional.cross_entropy(outputs.transpose(1, 2), targets, ignore_index=PAD)


def accuracy(outputs, targets):
    real = targets != PAD
    return (outputs.argmax(-1)[real] == targets[real]).float().mean().item()


def build(seed, faulty):
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    train, val = [date(rng) for _ in range(3000)], [date(rng) for _ in range(500)]
    collate = collate_unshifted if faulty else collate_shifted
    model = Rewriter()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    generator = torch.Generator().manual_seed(seed)
    return Program(
        model=model,
        optimizer=optimizer,
        loss_fn=loss_fn,
        train_loader=DataLoader(train, 64, shuffle=True, collate_fn=collate, generator=generator),
        val_loader=DataLoader(val, 100, collate_fn=collate),
        forward=forward,
        metric=accuracy,
    )


def make(seed):
    return build(seed, True), SPEC


def twin(seed):
    return build(seed, False), SPEC
