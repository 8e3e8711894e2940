"""Padding that counts as words."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from lecture_lib.debugging import Program, Spec

from .case import case
from .model_bases import own
from .programs import PAD, PARTS, TAGS, WORDS, changed, make


class MeanOfAll(nn.Module):
    """The class of a sentence from the mean over all places."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 16, padding_idx=PAD)
        self.head = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 3))

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.embedding(ids).mean(dim=1))


@case("A16", "mean over all places", "sentences")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return make(base, seed, parts=own(base, model=MeanOfAll))


class LastPlace(nn.Module):
    """The class of a sentence from a memory's state at the last place."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 16, padding_idx=PAD)
        self.memory = nn.GRU(16, 32, batch_first=True)
        self.head = nn.Linear(32, 3)

    def forward(self, ids: Tensor) -> Tensor:
        hidden, _ = self.memory(self.embedding(ids))
        return self.head(hidden[:, -1])


@case("A16", "state after the padding", "sentences")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return make(base, seed, parts=own(base, model=LastPlace))


class AttentionToAll(nn.Module):
    """The class of a sentence from a weighted mean; weights go to all places."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 16)
        self.importance = nn.Linear(16, 1)
        self.head = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 3))

    def forward(self, ids: Tensor) -> Tensor:
        words = self.embedding(ids)
        weights = self.importance(words).softmax(dim=1)
        return self.head((weights * words).sum(dim=1))


@case("A16", "attention without a mask", "sentences")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return make(base, seed, parts=own(base, model=AttentionToAll))


class BothDirections(nn.Module):
    """A tagger that reads from the end, too, without packing."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 16, padding_idx=PAD)
        self.memory = nn.GRU(16, 32, batch_first=True, bidirectional=True)
        self.head = nn.Linear(64, TAGS)

    def forward(self, ids: Tensor) -> Tensor:
        hidden, _ = self.memory(self.embedding(ids))
        return self.head(hidden).transpose(1, 2)


@case("A16", "both directions without packing", "sequence")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return make(base, seed, replace(PARTS[base].spec, causal=False), changed(base, model=BothDirections))


class SentenceContext(nn.Module):
    """A tagger that also sees the mean of the sentence."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 16, padding_idx=PAD)
        self.memory = nn.GRU(16, 32, batch_first=True)
        self.head = nn.Linear(64, TAGS)

    def forward(self, ids: Tensor) -> Tensor:
        hidden, _ = self.memory(self.embedding(ids))
        sentence = hidden.mean(dim=1, keepdim=True).expand_as(hidden)
        return self.head(torch.cat([hidden, sentence], dim=2)).transpose(1, 2)


@case("A16", "mean of the sentence as context", "sequence")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return make(base, seed, replace(PARTS[base].spec, causal=False), changed(base, model=SentenceContext))
