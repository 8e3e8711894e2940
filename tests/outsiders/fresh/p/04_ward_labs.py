"""Ten lab values of a patient at admission tell whether the ward has to expect a sepsis (about three in ten). Each
value is missing for one patient in eight.

Fault: the export writes a missing value as -999, and it goes through the scaler as a number: means and spreads are
those of the code, and all measured values lie close together. The twin makes it missing, scales by what was
measured and fills up with the mean.

Measured (seeds 0 and 1): validation accuracy 0.706 and 0.712 (always the commoner outcome: 0.68 and 0.70), the
twin's 0.835 and 0.831.
"""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = "inputs"
SPEC = Spec(task="classification", classes=2, epochs=20)
# sodium, potassium, creatinine, urea, glucose, lactate, CRP, white cells, platelets, pH
MEAN = np.array([139.0, 4.2, 1.1, 6.5, 6.8, 1.8, 60.0, 9.5, 240.0, 7.38])
STD = np.array([4.0, 0.5, 0.4, 2.5, 2.0, 0.8, 30.0, 3.5, 70.0, 0.06])


def admissions(rng, n):
    """What the export holds: lab values with -999 for those not measured, and the outcome."""
    z = rng.normal(size=(n, 10))
    z[:, 5] = 0.6 * z[:, 6] + 0.8 * z[:, 5]
    risk = 1.4 * z[:, 5] + 1.2 * np.abs(z[:, 7]) - 1.2 * z[:, 8] + 0.9 * z[:, 2] * (z[:, 9] < 0) - 0.9 * z[:, 9]
    outcome = (risk + 0.6 * rng.logistic(size=n) > 2.2).astype(np.int64)
    values = np.round(MEAN + STD * z, 2)
    values[rng.random(values.shape) < 0.125] = -999
    return values, outcome


def prepared(values, reference, faulty):
    """Scaled values; missing ones at the mean."""
    if not faulty:
        values, reference = (np.where(part == -999, np.nan, part) for part in (values, reference))
    z = (values - np.nanmean(reference, 0)) / np.nanstd(reference, 0)
    return torch.tensor(np.nan_to_num(z), dtype=torch.float32)


def build(seed, faulty):
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    (x_train, y_train), (x_val, y_val) = admissions(rng, 6000), admissions(rng, 2000)
    train = TensorDataset(prepared(x_train, x_train, faulty), torch.tensor(y_train))
    val = TensorDataset(prepared(x_val, x_train, faulty), torch.tensor(y_val))
    model = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    return Program(
        model=model,
        optimizer=optimizer,
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(train, 128, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(val, 500),
        scheduler=torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, SPEC.epochs),
        metric=lambda outputs, targets: (outputs.argmax(1) == targets).float().mean().item(),
    )


def make(seed):
    return build(seed, True), SPEC


def twin(seed):
    return build(seed, False), SPEC
