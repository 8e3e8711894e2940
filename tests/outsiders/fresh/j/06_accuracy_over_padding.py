"""Tags for the words of short sentences, with a bidirectional GRU over padded batches.

A word's tag depends on the word and on the one after it. Sentences have 3 to 30 words and are filled up with word 0 and
tag 0; the loss leaves tag 0 out. The evaluation decodes: it takes the best tag of each word and writes 0 behind the
sentence's end.

Fault: the accuracy is the mean over all positions, so that every filled-up position counts as a right tag. The twin
counts the sentences' words only.

Measured (seeds 0 and 1): reported accuracy 0.958 and 0.965 with the fault, 0.891 and 0.903 in the twin.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.data import DataLoader

from lecture_lib.debugging.program import Program, Spec

PART = ("metric",)
PAD, WORDS, TAGS, LONGEST = 0, 50, 6, 30


def sentences(rng, count, word_tag, shift):
    """Words 1..WORDS-1 and tags 1..TAGS: a word's class, turned by one where the next word asks for it, and noise."""
    found = []
    for _ in range(count):
        length = int(np.clip(rng.geometric(0.11) + 2, 3, LONGEST))
        words = rng.integers(1, WORDS, size=length)
        after = np.append(words[1:], PAD)
        tags = (word_tag[words] + shift[after]) % TAGS
        noisy = rng.random(length) < 0.12
        tags[noisy] = rng.integers(0, TAGS, size=int(noisy.sum()))
        found.append((words, tags + 1))
    return found


def collate(samples):
    words = torch.full((len(samples), LONGEST), PAD)
    tags = torch.full((len(samples), LONGEST), PAD)
    for row, (w, t) in enumerate(samples):
        words[row, : len(w)] = torch.from_numpy(w)
        tags[row, : len(t)] = torch.from_numpy(t)
    return {"words": words, "tags": tags}


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 24, padding_idx=PAD)
        self.gru = nn.GRU(24, 32, batch_first=True, bidirectional=True)
        self.head = nn.Linear(64, TAGS + 1)

    def forward(self, words):
        lengths = (words != PAD).sum(1)
        packed = pack_padded_sequence(self.embedding(words), lengths, batch_first=True, enforce_sorted=False)
        hidden, _ = pad_packed_sequence(self.gru(packed)[0], batch_first=True, total_length=words.shape[1])
        return self.head(hidden)


def decode(logits, words):
    """The best tag of each word, and PAD behind the sentence."""
    return (logits[..., 1:].argmax(-1) + 1) * (words != PAD)


def build(seed: int, count_padding: bool) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    word_tag, shift = rng.integers(0, TAGS, size=WORDS), rng.integers(0, 2, size=WORDS)
    shift[PAD] = 0
    train, val = sentences(rng, 600, word_tag, shift), sentences(rng, 150, word_tag, shift)
    model = Tagger()
    cross_entropy = nn.CrossEntropyLoss(ignore_index=PAD)

    def evaluate(program):
        program.model.eval()
        right = counted = 0
        with torch.no_grad():
            for batch in program.val_loader:
                tags = batch["tags"]
                hit = decode(program.model(batch["words"]), batch["words"]) == tags
                if not count_padding:
                    hit = hit[tags != PAD]
                right += int(hit.sum())
                counted += hit.numel()
        program.model.train()
        return {"accuracy": right / counted}

    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=8e-3),
        loss_fn=lambda logits, tags: cross_entropy(logits.flatten(0, 1), tags.flatten()),
        train_loader=DataLoader(train, batch_size=32, shuffle=True, collate_fn=collate),
        val_loader=DataLoader(val, batch_size=50, collate_fn=collate),
        unpack=lambda batch: (batch["words"], batch["tags"]),
        evaluate=evaluate,
    )
    return program, Spec(task="sequence", epochs=7, ignore_index=PAD, padding_index=PAD)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, count_padding=True)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, count_padding=False)
