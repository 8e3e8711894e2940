"""A matrix factorization recommends items of a shop: it learns from clicks, with four sampled items that the user has
not clicked for each click, and is judged by the hit rate in the top ten of each user's one held-out click.

Fault: the ranking holds the items that the user has clicked in training, which fill most of the top ten. The twin
leaves them out, as the shop does.

Measured (seeds 0 and 1): the faulty program reports a hit rate of 0.247 and 0.213, the twin, which has the same model,
0.613 and 0.563; on another held-out click of each user, ranked as in the shop, it is 0.567 and 0.507.
"""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("evaluation", "metric")
USERS, ITEMS, EACH, NEGATIVES, TOP = 300, 200, 22, 4, 10
SPEC = Spec(task="multi-label", epochs=25, examples=USERS * (EACH - 2) * (1 + NEGATIVES))  # Clicked or not.


def clicks(rng):
    """The items that each user clicked, in random order, by tastes in six dimensions."""
    taste, kind = rng.normal(size=(USERS, 6)), rng.normal(size=(ITEMS, 6))
    appeal = 1.2 * taste @ kind.T + 0.7 * rng.normal(size=ITEMS) + rng.gumbel(size=(USERS, ITEMS))
    best = np.argsort(-appeal, axis=1)[:, :EACH]
    return rng.permuted(best, axis=1)


class WithNegatives:
    """Makes a batch of clicks one of clicks and, for each, NEGATIVES random items that the user has not clicked."""

    def __init__(self, clicked):
        self.known = torch.zeros(USERS, ITEMS, dtype=torch.bool)
        self.known.scatter_(1, clicked, True)

    def __call__(self, rows):
        pairs = torch.stack([pair for (pair,) in rows])
        users = pairs[:, 0].repeat_interleave(NEGATIVES)
        items = torch.multinomial((~self.known[pairs[:, 0]]).float(), NEGATIVES).flatten()
        labels = torch.cat([torch.ones(len(pairs)), torch.zeros(len(users))])
        return torch.cat([pairs, torch.stack([users, items], dim=1)]), labels


class Factors(nn.Module):
    def __init__(self, size=12):
        super().__init__()
        self.user, self.item = nn.Embedding(USERS, size), nn.Embedding(ITEMS, size)
        self.popularity = nn.Embedding(ITEMS, 1)
        for table in (self.user, self.item, self.popularity):
            nn.init.normal_(table.weight, std=0.1)

    def forward(self, pairs):
        user, item = pairs[:, 0], pairs[:, 1]
        return (self.user(user) * self.item(item)).sum(1) + self.popularity(item)[:, 0]

    def all_items(self, users):
        return self.user(users) @ self.item.weight.T + self.popularity.weight[:, 0]


def evaluator(seen, mask):
    """Hit rate and mean reciprocal rank of the held-out clicks. `seen`: the items of each user in training."""

    def evaluate(program):
        program.model.eval()
        hits, reciprocal, count = 0, 0.0, 0
        with torch.no_grad():
            for pairs, label in program.val_loader:
                users, items = pairs[label == 1].T
                scores = program.model.all_items(users)
                if mask:
                    scores.scatter_(1, seen[users], float("-inf"))
                rank = (scores > scores.gather(1, items[:, None])).sum(1) + 1
                hits += (rank <= TOP).sum().item()
                reciprocal += (1 / rank).sum().item()
                count += len(users)
        return {"hit_rate": hits / count, "mrr": reciprocal / count}

    return evaluate


def held_out(rng, clicked, column):
    """The held-out click of each user and four items that they never clicked."""
    rows, labels = [], []
    for user in range(USERS):
        others = np.setdiff1d(np.arange(ITEMS), clicked[user])
        for place, item in enumerate([clicked[user, column], *rng.choice(others, NEGATIVES, replace=False)]):
            rows.append([user, int(item)])
            labels.append(float(place == 0))
    return TensorDataset(torch.tensor(rows), torch.tensor(labels))


def build(seed, mask):
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    clicked = clicks(rng)
    train = torch.tensor(clicked[:, 2:])  # The first is for validation, the second for the test.
    pairs = torch.stack([torch.arange(USERS).repeat_interleave(EACH - 2), train.flatten()], dim=1)
    generator = torch.Generator().manual_seed(seed)
    loader = DataLoader(TensorDataset(pairs), 200, shuffle=True, generator=generator, collate_fn=WithNegatives(train))
    model = Factors()
    return Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1),
        loss_fn=nn.BCEWithLogitsLoss(),
        train_loader=loader,
        val_loader=DataLoader(held_out(rng, clicked, 0), 500),
        evaluate=evaluator(train, mask),
    )


def make(seed):
    return build(seed, False), SPEC


def twin(seed):
    return build(seed, True), SPEC
