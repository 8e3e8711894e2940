"""Diagnosis from voice: log energies of 32 bands of recordings, several for each patient, healthy or not (synthetic).

Fault: Recordings are split at random, not patients: every validation patient also has recordings in training, and the
network knows the voices. The twin keeps each patient on one side (StratifiedGroupKFold).

Measured (seeds 0 and 1): reported accuracy 0.988 and 0.969 with the fault, 0.869 and 0.831 in the twin (loss 0.091 and
0.139, 0.337 and 0.342). The truth for the faulty models, on 800 new patients: 0.863 and 0.877.
"""

import numpy as np
import torch
from sklearn.model_selection import StratifiedGroupKFold, train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("split",)
EPOCHS = 10
PATIENTS, RECORDINGS, BANDS = 80, 8, 32


def recordings(seed):
    random = np.random.default_rng(seed)
    illness = np.where(np.arange(BANDS) > 11, -0.7, 0.3)
    energies, labels, patients = [], [], []
    for patient in range(PATIENTS):
        ill = patient % 2
        voice = random.normal(0, 1, BANDS) + random.normal(0, 1) + ill * illness
        for _ in range(RECORDINGS):
            energies.append(voice + random.normal(0, 0.25, BANDS) + random.normal(0, 0.3))
            labels.append(ill)
            patients.append(patient)
    return np.array(energies, dtype=np.float32), np.array(labels), np.array(patients)


def split(labels, patients, seed):
    return train_test_split(np.arange(len(labels)), test_size=0.25, random_state=seed, stratify=labels)


def split_twin(labels, patients, seed):
    folds = StratifiedGroupKFold(n_splits=4, shuffle=True, random_state=seed)
    return next(folds.split(np.zeros(len(labels)), labels, patients))


def network():
    return nn.Sequential(nn.Linear(BANDS, 128), nn.ReLU(), nn.Dropout(0.3), nn.Linear(128, 2))


def accuracy(outputs, targets):
    return float((outputs.argmax(1) == targets).float().mean())


def build(seed, splitter):
    torch.manual_seed(seed)
    energies, labels, patients = recordings(seed)
    train, val = splitter(labels, patients, seed)
    energies = (energies - energies[train].mean(0)) / energies[train].std(0)

    def dataset(rows):
        return TensorDataset(torch.from_numpy(energies[rows]), torch.from_numpy(labels[rows]))

    model = network()
    shuffle = torch.Generator().manual_seed(seed)
    program = Program(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05),
        loss_fn=nn.CrossEntropyLoss(),
        train_loader=DataLoader(dataset(train), batch_size=32, shuffle=True, generator=shuffle),
        val_loader=DataLoader(dataset(val), batch_size=80),
        metric=accuracy,
    )
    groups = {"train_groups": patients[train].tolist(), "val_groups": patients[val].tolist()}
    return program, Spec(task="classification", classes=2, epochs=EPOCHS, **groups)


def make(seed: int) -> tuple[Program, Spec]:
    return build(seed, split)


def twin(seed: int) -> tuple[Program, Spec]:
    return build(seed, split_twin)
