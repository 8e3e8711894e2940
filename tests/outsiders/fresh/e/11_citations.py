"""Graph: the field of a paper from its own words and those of the papers that it cites; one graph, no batches.

Fault: the adjacency matrix is filled as [cited, citing], so that a paper hears those that cite it and not those that
it cites. The edge list of the data has (source, target) columns, and which is the row was guessed.

Measured (seeds 0 and 1): validation accuracy 0.43 and 0.39 faulty, 0.90 and 0.89 twin.
"""

import torch
from torch import nn
from torch.nn import functional as F

from lecture_lib.debugging.program import Program, Spec

PART = ("model",)
PAPERS, WORDS, FIELDS, CITES = 900, 24, 4, 6


def citations(g):
    """Papers cite mostly their own field's classics, whose words are telling; words of ordinary papers tell little."""
    field = torch.randint(0, FIELDS, (PAPERS,), generator=g)
    classic = torch.rand(PAPERS, generator=g) < 0.1
    typical = torch.randn(FIELDS, WORDS, generator=g)
    words = torch.where(classic[:, None], 1.0, 0.12) * typical[field] + torch.randn(PAPERS, WORDS, generator=g)
    edges = []
    for paper in range(PAPERS):
        same = bool(torch.rand(1, generator=g) < 0.85)
        pool = torch.nonzero(classic & ((field == field[paper]) if same else (field >= 0)))[:, 0]
        for cited in pool[torch.randperm(len(pool), generator=g)[:CITES]].tolist():
            if cited != paper:
                edges.append((paper, cited))
    return words, field, torch.tensor(edges).T


class GraphLayer(nn.Module):
    """Own features and the mean of the neighbours', each with weights of their own."""

    def __init__(self, inside, outside):
        super().__init__()
        self.own = nn.Linear(inside, outside)
        self.near = nn.Linear(inside, outside, bias=False)

    def forward(self, x, adjacency):
        degree = adjacency.sum(1, keepdim=True).clamp(min=1)
        return self.own(x) + self.near(adjacency @ x / degree)


class PaperNet(nn.Module):
    def __init__(self, edges, ok):
        super().__init__()
        adjacency = torch.zeros(PAPERS, PAPERS)
        citing, cited = edges
        if ok:
            adjacency[citing, cited] = 1
        else:
            adjacency[cited, citing] = 1
        self.register_buffer("adjacency", adjacency)
        self.first = GraphLayer(WORDS, 24)
        self.drop = nn.Dropout(0.4)
        self.second = GraphLayer(24, FIELDS)

    def forward(self, x):
        return self.second(self.drop(F.relu(self.first(x, self.adjacency))), self.adjacency)


def build(seed: int, ok: bool):
    torch.manual_seed(seed)
    words, field, edges = citations(torch.Generator().manual_seed(seed))
    order = torch.randperm(PAPERS, generator=torch.Generator().manual_seed(seed + 1))
    train, val = order[:500], order[500:]
    model = PaperNet(edges, ok)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=5e-4)

    def train_epoch(program):
        program.model.train()
        program.optimizer.zero_grad()
        loss = program.loss_fn(program.model(words)[train], field[train])
        loss.backward()
        program.optimizer.step()

    @torch.no_grad()
    def evaluate(program):
        program.model.eval()
        out = program.model(words)[val]
        program.model.train()
        loss = program.loss_fn(out, field[val]).item()
        return {"loss": loss, "accuracy": (out.argmax(1) == field[val]).float().mean().item()}

    program = Program(
        model=model,
        optimizer=optimizer,
        loss_fn=nn.CrossEntropyLoss(),
        train_epoch=train_epoch,
        evaluate=evaluate,
    )
    return program, Spec(task="classification", classes=FIELDS, epochs=60, couples_samples=True)


def make(seed: int):
    return build(seed, ok=False)


def twin(seed: int):
    return build(seed, ok=True)
