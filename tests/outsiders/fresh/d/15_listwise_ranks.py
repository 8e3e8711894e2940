"""Learning to rank: each query has four documents; a scorer is trained on their ranks by relevance.

Fault: the rank labels are made with one `argsort`: that gives which document comes at each place, not at which place
each document comes. Ranks need `argsort().argsort()`. The two agree for 10 of the 24 orders of four documents, so
training learns something and nothing looks broken. The evaluation uses the relevances themselves.

Measured, share of validation pairs ordered rightly (higher is better), faulty / twin: seed 0: 0.815 / 0.938; seed 1:
0.810 / 0.919.
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("labels",)
DOCUMENTS, FEATURES = 4, 8


class Scorer(nn.Module):
    """Scores each document by itself."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(FEATURES, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 1))

    def forward(self, documents):
        return self.net(documents).squeeze(-1)


def queries(count, generator):
    documents = torch.randn(count, DOCUMENTS, FEATURES, generator=generator)
    relevance = documents[..., 0] + documents[..., 1] * documents[..., 2] - 0.8 * documents[..., 3].abs()
    return documents, relevance + 0.2 * torch.randn(count, DOCUMENTS, generator=generator)


def to_ranks(relevance, ok):
    """0 for the least relevant document of a query, 3 for the most."""
    order = relevance.argsort(-1)
    return (order.argsort(-1) if ok else order).float()


def list_net(scores, ranks):
    """Cross-entropy between the softmax of the ranks and that of the scores."""
    return -(ranks.softmax(-1) * F.log_softmax(scores, -1)).sum(-1).mean()


def evaluate(program):
    was = program.model.training
    program.model.eval()
    right = count = 0
    with torch.no_grad():
        for documents, _, relevance in program.val_loader:
            scores = program.model(documents)
            better = relevance[:, :, None] > relevance[:, None, :]
            right += int((better & (scores[:, :, None] > scores[:, None, :])).sum())
            count += int(better.sum())
    program.model.train(was)
    return {"pairs_right": right / count}


def build(seed: int, ok: bool) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(150 + seed)
    sets = []
    for count in (1500, 500):
        documents, relevance = queries(count, generator)
        sets.append(TensorDataset(documents, to_ranks(relevance, ok), relevance))
    model = Scorer()
    shuffle = torch.Generator().manual_seed(seed)
    program = Program(
        model,
        torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-2),
        list_net,
        train_loader=DataLoader(sets[0], batch_size=50, shuffle=True, generator=shuffle),
        val_loader=DataLoader(sets[1], batch_size=100),
        evaluate=evaluate,
    )
    return program, Spec(epochs=15)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, ok=False)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, ok=True)
