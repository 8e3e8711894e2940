"""Sequence tagging: a tag for each token of sentences of different lengths with a bidirectional LSTM.

Fault: the reported accuracy multiplies guesses and tags with the mask of real tokens and then takes the mean over all
positions, so that each padded position (0 equals 0) counts as right. Most sentences are short, so most positions are
padding. The mask is there, which is why the review let it pass.

Measured (seeds 0 and 1): reported accuracy 0.96 and 0.95 faulty, 0.83 and 0.84 twin, with the same training.
"""

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader

from lecture_lib.debugging.program import Program, Spec

PART = ("metric",)
PAD, IGNORE = 0, -100
WORDS, TAGS = 40, 6


def sentences(count, g):
    """The tag depends on the word and the one before it; every seventh or so has been annotated at random."""
    made = []
    for _ in range(count):
        length = 3 + int(7 * torch.rand(1, generator=g) ** 2) + 15 * int(torch.rand(1, generator=g) < 0.08)
        words = torch.randint(1, WORDS, (length,), generator=g)
        before = torch.cat([torch.zeros(1, dtype=torch.long), words[:-1]])
        tags = (words % 3) + 3 * (before % 2)
        noise = torch.rand(length, generator=g) < 0.2
        made.append((words, torch.where(noise, torch.randint(0, TAGS, (length,), generator=g), tags)))
    return made


def collate(batch):
    words, tags = zip(*batch, strict=False)
    return {
        "words": pad_sequence(words, batch_first=True, padding_value=PAD),
        "tags": pad_sequence(tags, batch_first=True, padding_value=IGNORE),
    }


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(WORDS, 24, padding_idx=PAD)
        self.lstm = nn.LSTM(24, 32, batch_first=True, bidirectional=True)
        self.head = nn.Linear(64, TAGS)

    def forward(self, words):
        lengths = (words != PAD).sum(1).cpu()
        packed = pack_padded_sequence(self.embed(words), lengths, batch_first=True, enforce_sorted=False)
        hidden, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=words.shape[1])
        return self.head(hidden)


def token_loss(logits, tags):
    return F.cross_entropy(logits.flatten(0, 1), tags.flatten(), ignore_index=IGNORE)


def build(seed: int, ok: bool):
    torch.manual_seed(seed)
    g = torch.Generator().manual_seed(seed)
    train, val = sentences(1200, g), sentences(300, g)
    model = Tagger()

    @torch.no_grad()
    def evaluate(program):
        program.model.eval()
        right = total = 0
        for batch in program.val_loader:
            guess = program.model(batch["words"]).argmax(-1)
            tags = batch["tags"]
            mask = (tags != IGNORE).long()
            if ok:
                right += ((guess == tags) * mask).sum().item()
                total += mask.sum().item()
            else:
                right += (guess * mask == tags * mask).sum().item()
                total += tags.numel()
        program.model.train()
        return {"accuracy": right / total}

    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=5e-3),
        loss_fn=token_loss,
        train_loader=DataLoader(
            train, 32, shuffle=True, collate_fn=collate, generator=torch.Generator().manual_seed(seed)
        ),
        val_loader=DataLoader(val, 100, collate_fn=collate),
        unpack=lambda batch: (batch["words"], batch["tags"]),
        evaluate=evaluate,
    )
    return program, Spec(task="sequence", classes=TAGS, epochs=6, ignore_index=IGNORE, padding_index=PAD)


def make(seed: int):
    return build(seed, ok=False)


def twin(seed: int):
    return build(seed, ok=True)
