"""Weights that were to be one and are two."""

from __future__ import annotations

import copy

import torch
from torch import nn

from lecture_lib.debugging import Program, Spec

from .case import case
from .model_bases import TiedLanguage, own
from .programs import WORDS, make


class CopiedValues(TiedLanguage):
    """The head gets the embedding's values."""

    def tie(self) -> None:
        """Copy."""
        self.head.weight.data.copy_(self.embedding.weight.data)


@case("P11", "values are copied", "language")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return make(base, seed, parts=own(base, model=CopiedValues))


class NewParameter(TiedLanguage):
    """The head gets a new parameter of the embedding's values."""

    def tie(self) -> None:
        """Copy, too."""
        self.head.weight = nn.Parameter(self.embedding.weight.clone())


@case("P11", "a new Parameter of a clone", "language")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    return make(base, seed, parts=own(base, model=NewParameter))


@case("P11", "the embedding is replaced after tying", "language")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def model() -> nn.Module:
        made = TiedLanguage()
        vectors = torch.randn(WORDS, 32) * 0.2
        made.embedding = nn.Embedding.from_pretrained(vectors, freeze=False)
        return made

    return make(base, seed, parts=own(base, model=model))


@case("P11", "the head is a deep copy", "language")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def model() -> nn.Module:
        made = TiedLanguage()
        made.head = copy.deepcopy(made.head)
        return made

    return make(base, seed, parts=own(base, model=model))
