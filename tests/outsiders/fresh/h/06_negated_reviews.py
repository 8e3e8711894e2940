"""A small transformer tells the sentiment of padded reviews in which a negation can turn the opinion round.

Fault: `key_padding_mask` is given as `tokens != PAD`, True for the words, as in other libraries' attention masks; in
nn.MultiheadAttention True means "leave out". Every word so attends to the padding only. As all sequences are padded to
a fixed length that none fills, no row is masked throughout and no NaN comes up. Without attention between words, the
linear head gets a sum over single words and cannot see that "not" turns "good" round.

Measured (seeds 0 and 1): validation accuracy 0.56 and 0.55 faulty, 1.00 and 1.00 repaired.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("model",)
EPOCHS = 10
PAD, NEGATION, VOCABULARY, LENGTH = 0, 1, 40, 18


class ReviewTransformer(nn.Module):
    """Word and position embeddings, one attention block, the mean over words, a linear head."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, width, padding_idx=PAD)
        self.positions = nn.Parameter(0.02 * torch.randn(LENGTH, width))
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.mlp = nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width))
        self.head = nn.Linear(width, 2)

    def padding_mask(self, tokens: Tensor) -> Tensor:
        return tokens != PAD

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens) + self.positions
        h = self.norms[0](x)
        x = x + self.attention(h, h, h, key_padding_mask=self.padding_mask(tokens), need_weights=False)[0]
        x = x + self.mlp(self.norms[1](x))
        real = (tokens != PAD).unsqueeze(2).float()
        return self.head((x * real).sum(1) / real.sum(1))


class RepairedReviewTransformer(ReviewTransformer):
    """The same with the mask the right way round."""

    def padding_mask(self, tokens: Tensor) -> Tensor:
        return tokens == PAD


def _reviews(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    tokens = torch.randint(6, VOCABULARY, (count, LENGTH), generator=generator)
    lengths = torch.randint(5, LENGTH, (count,), generator=generator)
    opinion = torch.randint(2, 6, (count,), generator=generator)  # 2 and 3 are bad, 4 and 5 good
    negated = torch.rand(count, generator=generator) < 0.4
    for i in range(count):
        at = int(torch.randint(1, int(lengths[i]), (1,), generator=generator))
        tokens[i, at] = opinion[i]
        if negated[i]:
            tokens[i, at - 1] = NEGATION
        tokens[i, lengths[i] :] = PAD
    return tokens, ((opinion >= 4) ^ negated).long()


def _accuracy(logits: Tensor, labels: Tensor) -> float:
    return (logits.argmax(1) == labels).float().mean().item()


def _build(seed: int, network: type[ReviewTransformer]) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    train_set, val_set = TensorDataset(*_reviews(3000, generator)), TensorDataset(*_reviews(800, generator))
    model = network()
    program = Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01),
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(train_set, 50, shuffle=True, generator=generator),
        val_loader=DataLoader(val_set, 200),
        metric=_accuracy,
    )
    return program, Spec(task="classification", classes=2, epochs=EPOCHS, padding_index=PAD)


def make(seed: int) -> tuple[Program, Spec]:
    return _build(seed, ReviewTransformer)


def twin(seed: int) -> tuple[Program, Spec]:
    return _build(seed, RepairedReviewTransformer)
