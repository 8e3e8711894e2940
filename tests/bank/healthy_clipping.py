"""Clipping that is nearly always active."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from lecture_lib.debugging import Program, Spec

from .case import case
from .programs import PAD, PARTS, TAGS, WORDS, changed, make


class Transformer(nn.Module):
    """A tagger of one layer of attention, looking back only."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 32, padding_idx=PAD)
        self.positions = nn.Parameter(0.5 * torch.randn(64, 32))
        self.layer = nn.TransformerEncoderLayer(32, 2, 64, dropout=0.0, batch_first=True, norm_first=True)
        self.head = nn.Linear(32, TAGS)

    def forward(self, ids: Tensor) -> Tensor:
        words = self.embedding(ids) + self.positions[: ids.shape[1]]
        later = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        return self.head(self.layer(words, src_mask=later, is_causal=True)).transpose(1, 2)


def clipped_step(p: Program, batch: tuple[Tensor, Tensor]) -> None:
    """One step with gradients of a norm up to 1."""
    x, y = batch
    p.optimizer.zero_grad()
    p.loss_fn(p.model(x), y).backward()
    nn.utils.clip_grad_norm_(p.model.parameters(), max_norm=1.0)
    p.optimizer.step()


@case("K36", "transformer and AdamW", "sequence")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    def total(outputs: Tensor, targets: Tensor) -> Tensor:
        # A sum over the sentence, as sequence models often have it: norms are far above 1.
        return nn.functional.cross_entropy(outputs, targets, ignore_index=-100, reduction="sum") / len(targets)

    spec = replace(PARTS[base].spec, max_norm=1.0, epochs=20)
    return make(base, seed, spec, changed(base, model=Transformer, loss_fn=total), step=clipped_step)


@case("K36", "norm in the loop", "digits", "regression")
def _(base: str, seed: int) -> tuple[Program, Spec]:
    max_norm = {"digits": 0.2, "regression": 0.5}[base]

    def train_epoch(p: Program) -> None:
        p.model.train()
        for x, y in p.train_loader:
            loss = p.loss_fn(p.model(x), y)
            p.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(p.model.parameters(), max_norm)
            p.optimizer.step()

    return make(base, seed, replace(PARTS[base].spec, max_norm=max_norm), train_epoch=train_epoch)
