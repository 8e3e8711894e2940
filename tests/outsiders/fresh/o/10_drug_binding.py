"""Which drug binds to which protein: 250 drugs, 200 proteins, a pair's logit is the product of the two learnt vectors
and their two biases. Trained on part of the pairs, reported by the area under the ROC curve on other pairs.

Fault: all vectors start at zero, on both sides of the product; the gradient of each side is the other side, so that
they stay at zero for ever and only the biases learn. The twin draws small vectors at random.

Measured (seeds 0 and 1): area under the curve on validation 0.61 and 0.58, the twin 0.91 and 0.90.
"""

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "initialisation"
DRUGS, PROTEINS, SITES, SIZE = 250, 200, 5, 6
SPEC = Spec(task="multi-label", epochs=12)


class Binding(nn.Module):
    def __init__(self, faulty):
        super().__init__()
        self.drug = nn.Embedding(DRUGS, SIZE)
        self.protein = nn.Embedding(PROTEINS, SIZE)
        self.drug_bias = nn.Parameter(torch.zeros(DRUGS))
        self.protein_bias = nn.Parameter(torch.zeros(PROTEINS))
        for table in (self.drug, self.protein):
            if faulty:
                nn.init.zeros_(table.weight)
            else:
                nn.init.normal_(table.weight, std=0.1)

    def forward(self, pairs):
        drug, protein = pairs.unbind(1)
        product = (self.drug(drug) * self.protein(protein)).sum(1)
        return (product + self.drug_bias[drug] + self.protein_bias[protein])[:, None]


def assays(rng):
    drug, protein = rng.normal(0, 1, (DRUGS, SITES)), rng.normal(0, 1, (PROTEINS, SITES))
    score = 1.8 * drug @ protein.T + rng.normal(0, 0.7, (DRUGS, 1)) + rng.normal(0, 0.7, PROTEINS) - 1.5
    bound = rng.random(score.shape) < 1 / (1 + np.exp(-score))
    cells = rng.permutation(DRUGS * PROTEINS)[:24000]
    pairs = np.column_stack([cells // PROTEINS, cells % PROTEINS])
    return torch.tensor(pairs), torch.tensor(bound.ravel()[cells], dtype=torch.float32)[:, None]


def build(seed, faulty):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    pairs, bound = assays(rng)
    model = Binding(faulty)
    program = Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.2),
        loss_fn=nn.BCEWithLogitsLoss(),
        train_loader=DataLoader(
            TensorDataset(pairs[:20000], bound[:20000]),
            batch_size=128,
            shuffle=True,
            generator=torch.Generator().manual_seed(seed),
        ),
        val_loader=DataLoader(TensorDataset(pairs[20000:], bound[20000:]), batch_size=1000),
        metric=lambda outputs, targets: float(roc_auc_score(targets.ravel().numpy(), outputs.ravel().numpy())),
    )
    return program, SPEC


def make(seed):
    return build(seed, faulty=True)


def twin(seed):
    return build(seed, faulty=False)
