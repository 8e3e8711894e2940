"""Tabular regression: disease progression of the diabetes set, reported as R2.

Fault: the hand-written R2 divides by the sum of the squared targets instead of by their spread about the mean (the
"uncentred" R2 of a model without intercept). The targets are about 150 +- 77, so predicting the mean everywhere
already gives 0.8. The model is fine; the reported number is not.

Measured, reported R2 on validation, faulty / twin (the same model, so the twin's figure is the truth): seed 0: 0.894
/ 0.413; seed 1: 0.895 / 0.441.
"""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("metric",)


def build(seed: int, ok: bool) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    x, y = load_diabetes(return_X_y=True)
    x_train, x_val, y_train, y_val = train_test_split(x, y, test_size=0.3, random_state=seed)
    scaler = StandardScaler().fit(x_train)
    tensors = [
        torch.tensor(part, dtype=torch.float32)
        for part in (scaler.transform(x_train), y_train[:, None], scaler.transform(x_val), y_val[:, None])
    ]
    centre, spread = tensors[1].mean(), tensors[1].std()

    model = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Dropout(0.1), nn.Linear(24, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)

    def r_squared(predicted, target):
        residual = ((target - predicted) ** 2).sum()
        total = ((target - target.mean()) ** 2).sum() if ok else (target**2).sum()
        return float(1 - residual / total)

    shuffle = torch.Generator().manual_seed(seed)
    program = Program(
        model,
        optimizer,
        lambda predicted, target: F.smooth_l1_loss(predicted / spread, target / spread),
        train_loader=DataLoader(TensorDataset(*tensors[:2]), batch_size=32, shuffle=True, generator=shuffle),
        val_loader=DataLoader(TensorDataset(*tensors[2:]), batch_size=64),
        # The network works in standard units; predictions are in those of the score.
        forward=lambda model, inputs: model(inputs) * spread + centre,
        metric=r_squared,
    )
    return program, Spec(task="regression", epochs=15)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, ok=False)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, ok=True)
