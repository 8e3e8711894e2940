"""The attention splits the heads with a view and without the transpose: each head sees only its own quarter of the
sequence, and nothing passes from the early tokens to the last.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging import Program, Spec

PART = ("model", "layers")
KEYS, VALUES, PAIRS, HEADS = 10, 6, 7, 4


def recall(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Pairs of key and value and then one of the keys: which value came with it?"""
    keys = torch.stack([torch.randperm(KEYS, generator=generator)[:PAIRS] for _ in range(count)])
    values = torch.randint(VALUES, (count, PAIRS), generator=generator)
    asked = torch.randint(PAIRS, (count, 1), generator=generator)
    items = keys * VALUES + values
    query = KEYS * VALUES + keys.gather(1, asked)
    return torch.cat([items, query], dim=1), values.gather(1, asked).squeeze(1)


class SelfAttention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def split(self, x: Tensor) -> Tensor:
        return x.view(x.shape[0], HEADS, x.shape[1], x.shape[2] // HEADS)

    def join(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[0], x.shape[2], -1)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (self.split(part.contiguous()) for part in self.qkv(x).chunk(3, dim=-1))
        return self.out(self.join(nn.functional.scaled_dot_product_attention(q, k, v)))


class TransposingSelfAttention(SelfAttention):
    def split(self, x: Tensor) -> Tensor:
        return x.view(x.shape[0], x.shape[1], HEADS, x.shape[2] // HEADS).transpose(1, 2)

    def join(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2).flatten(2)


class Block(nn.Module):
    def __init__(self, width: int, attention: type[SelfAttention]) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = attention(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Recaller(nn.Module):
    def __init__(self, attention: type[SelfAttention], width: int = 48) -> None:
        super().__init__()
        self.embed = nn.Embedding(KEYS * VALUES + KEYS, width)
        self.position = nn.Parameter(0.02 * torch.randn(PAIRS + 1, width))
        self.blocks = nn.Sequential(Block(width, attention), Block(width, attention))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, VALUES))

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.blocks(self.embed(tokens) + self.position)[:, -1])


def accuracy(outputs: Tensor, targets: Tensor) -> float:
    return float((outputs.argmax(1) == targets).float().mean())


def build(seed: int, attention: type[SelfAttention]) -> tuple[Program, Spec]:
    generator = torch.Generator().manual_seed(seed)
    train, val = TensorDataset(*recall(3000, generator)), TensorDataset(*recall(600, generator))
    torch.manual_seed(seed)
    model = Recaller(attention)
    program = Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2),
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(train, batch_size=64, shuffle=True, generator=generator),
        val_loader=DataLoader(val, batch_size=200),
        metric=accuracy,
    )
    return program, Spec(task="classification", classes=VALUES, epochs=12)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, SelfAttention)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, TransposingSelfAttention)
