"""A tiny decoder-only transformer that learns to continue token sequences of a synthetic language.

Fault: the labels of a block are already the tokens one further on, and the loss (like the metric) shifts them again:
the model learns the token after the next. The twin's labels are the input ids, which the loss shifts once.

Measured (seeds 0 and 1): token accuracy as reported 0.384 and 0.404, of the real next token 0.129 and 0.096; twin
0.608 and 0.612.
"""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("labels", "loss")


@dataclass
class Config:
    vocab: int = 24
    context: int = 32
    width: int = 48
    heads: int = 4
    depth: int = 2
    batch: int = 32
    lr: float = 3e-3
    epochs: int = 6


def corpus(cfg, seed, length=26000):
    """Tokens of a chain in which each token has three likely successors."""
    rng = np.random.default_rng(seed)
    table = np.full((cfg.vocab, cfg.vocab), 0.1 / cfg.vocab)
    for row in table:
        row[rng.choice(cfg.vocab, 3, replace=False)] += [0.6, 0.2, 0.1]
    cumulative = (table / table.sum(1, keepdims=True)).cumsum(1)
    tokens = [0]
    for u in rng.random(length - 1):
        tokens.append(min(int(np.searchsorted(cumulative[tokens[-1]], u)), cfg.vocab - 1))
    return torch.tensor(tokens)


def blocks(tokens, cfg, shift):
    """Cut a stream into (input_ids, labels) blocks."""
    count = (len(tokens) - 1) // cfg.context
    input_ids = tokens[: count * cfg.context].view(count, cfg.context)
    labels = tokens[shift : count * cfg.context + shift].view(count, cfg.context)
    return TensorDataset(input_ids, labels)


class Decoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.tok = nn.Embedding(cfg.vocab, cfg.width)
        self.pos = nn.Embedding(cfg.context, cfg.width)
        layer = nn.TransformerEncoderLayer(
            cfg.width, cfg.heads, 4 * cfg.width, dropout=0.1, batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(layer, cfg.depth, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(cfg.width)
        self.lm_head = nn.Linear(cfg.width, cfg.vocab)
        for table in (self.tok, self.pos):
            nn.init.normal_(table.weight, std=0.1)

    def forward(self, input_ids):
        n = input_ids.size(1)
        mask = nn.Transformer.generate_square_subsequent_mask(n)
        h = self.tok(input_ids) + self.pos(torch.arange(n))
        return self.lm_head(self.norm(self.blocks(h, mask=mask, is_causal=True)))


def lm_loss(logits, labels):
    logits, labels = logits[:, :-1], labels[:, 1:]
    return F.cross_entropy(logits.reshape(-1, logits.size(-1)), labels.reshape(-1))


def token_accuracy(logits, labels):
    return (logits[:, :-1].argmax(-1) == labels[:, 1:]).float().mean().item()


def build(seed, shift):
    torch.manual_seed(seed)
    cfg = Config()
    tokens = corpus(cfg, seed)
    cut = int(0.85 * len(tokens))
    model = Decoder(cfg)
    program = Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=0.01),
        loss_fn=lm_loss,
        train_loader=DataLoader(
            blocks(tokens[:cut], cfg, shift), cfg.batch, shuffle=True, generator=torch.Generator().manual_seed(seed)
        ),
        val_loader=DataLoader(blocks(tokens[cut:], cfg, shift), cfg.batch),
        metric=token_accuracy,
    )
    return program, Spec(task="sequence", classes=cfg.vocab, epochs=cfg.epochs, causal=True)


def make(seed):
    return build(seed, shift=1)


def twin(seed):
    return build(seed, shift=0)
