"""Tabular with embeddings: sales (standardised) from store, product and two numbers.

Fault: the strings of stores and products become codes by each table's own sorted list of names. The validation table
is small and lacks some names, so that its codes are shifted against those that the embeddings were trained with.
`encode` was a notebook function for one table and was called once for each.

Measured (seeds 0 and 1): validation R2 0.15 and 0.56 faulty, 0.93 and 0.95 twin.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("inputs",)
STORES, PRODUCTS = 60, 30


def sales(count, effects, g):
    """Rows as they come from the data base: names, numbers, sold. Small stores have few rows."""
    store_effect, product_effect = effects
    store = torch.multinomial(
        1 / torch.arange(1.0, STORES + 1)[torch.randperm(STORES, generator=g)], count, True, generator=g
    )
    product = torch.randint(0, PRODUCTS, (count,), generator=g)
    numbers = torch.randn(count, 2, generator=g)
    sold = store_effect[store] + product_effect[product] + 0.5 * numbers[:, 0] - 0.3 * numbers[:, 1] ** 2
    sold = sold + 0.3 * torch.randn(count, generator=g)
    return [f"store-{i:03d}" for i in store.tolist()], [f"item {i:02d}" for i in product.tolist()], numbers, sold


def names(column):
    return {name: code for code, name in enumerate(sorted(set(column)))}


def encode(table, stores, products, mean, std):
    store, product, numbers, sold = table
    codes = torch.tensor(
        [[stores.get(s, STORES), products.get(p, PRODUCTS)] for s, p in zip(store, product, strict=False)]
    )
    return TensorDataset(codes, numbers, ((sold - mean) / std)[:, None])


class SalesNet(nn.Module):
    def __init__(self):
        super().__init__()
        # One more for names that training has not seen.
        self.store = nn.Embedding(STORES + 1, 8)
        self.product = nn.Embedding(PRODUCTS + 1, 6)
        self.body = nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Linear(48, 1))

    def forward(self, inputs):
        codes, numbers = inputs
        return self.body(torch.cat([self.store(codes[:, 0]), self.product(codes[:, 1]), numbers], 1))


def r2(out, y):
    return (1 - ((out - y) ** 2).sum() / ((y - y.mean()) ** 2).sum()).item()


def build(seed: int, ok: bool):
    torch.manual_seed(seed)
    g = torch.Generator().manual_seed(seed)
    effects = torch.randn(STORES, generator=g), torch.randn(PRODUCTS, generator=g)
    table = sales(3150, effects, g)
    train, val = [part[:3000] for part in table], [part[3000:] for part in table]
    stores, products = names(train[0]), names(train[1])
    mean, std = train[3].mean(), train[3].std()
    train_set = encode(train, stores, products, mean, std)
    val_set = encode(val, stores, products, mean, std) if ok else encode(val, names(val[0]), names(val[1]), mean, std)
    model = SalesNet()
    program = Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01),
        loss_fn=nn.MSELoss(),
        train_loader=DataLoader(train_set, 64, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(val_set, 150),
        unpack=lambda batch: ((batch[0], batch[1]), batch[2]),
        metric=r2,
    )
    return program, Spec(task="regression", epochs=20)


def make(seed: int):
    return build(seed, ok=False)


def twin(seed: int):
    return build(seed, ok=True)
