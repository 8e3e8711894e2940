"""Digits of which 40 % of the training labels were replaced at random, with forward correction of the loss.

Unusual: the training labels are wrong in a known way, a data set for the study of noise: with probability 0.4 a label
is replaced by one of the nine others. The loss multiplies the predicted probabilities by that transition matrix, so
that its minimum is at the clean posterior; it cannot get below the entropy of the noise (1.55) without memorising.
Training accuracy against the noisy labels is therefore near 0.6, that of validation, whose labels are clean on
purpose, far higher; `evaluate` uses the plain cross-entropy there. Pixels come as whole numbers 0 to 16, which are
amounts and no ids; the model scales them.

Metric: accuracy against clean labels of validation (0.1 for a constant answer).
Measured after 30 epochs: seed 0: clean_cross_entropy 0.201, clean_accuracy 0.9622; seed 1: clean_cross_entropy
0.2107, clean_accuracy 0.9547.
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy, nll_loss
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

NOISE, CLASSES = 0.4, 10
TRANSITION = torch.full((CLASSES, CLASSES), NOISE / (CLASSES - 1)).fill_diagonal_(1 - NOISE)


class Scale(nn.Module):
    def forward(self, pixels):
        return pixels.float().flatten(1) / 8 - 1


def corrected_loss(logits, noisy):
    return nll_loss((logits.softmax(1) @ TRANSITION).log(), noisy)


def evaluate(program):
    program.model.eval()
    with torch.no_grad():
        parts = [(program.outputs(x), y) for x, y in program.val_loader]
    program.model.train()
    logits, labels = (torch.cat(part) for part in zip(*parts, strict=True))
    accuracy = (logits.argmax(1) == labels).float().mean()
    return {"clean_cross_entropy": cross_entropy(logits, labels).item(), "clean_accuracy": accuracy.item()}


def make(seed):
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(1300 + seed)
    digits = load_digits()
    pixels, labels = torch.tensor(digits.images).to(torch.uint8), torch.tensor(digits.target)
    order = torch.randperm(len(pixels), generator=generator)
    train, val = order[:1400], order[1400:]
    other = (labels[train] + torch.randint(1, CLASSES, (len(train),), generator=generator)) % CLASSES
    noisy = torch.where(torch.rand(len(train), generator=generator) < NOISE, other, labels[train])
    model = nn.Sequential(Scale(), nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.4), nn.Linear(64, CLASSES))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)
    epochs = 30
    program = Program(
        model=model,
        optimizer=optimizer,
        loss_fn=corrected_loss,
        train_loader=DataLoader(
            TensorDataset(pixels[train], noisy), 50, shuffle=True, generator=torch.Generator().manual_seed(seed)
        ),
        val_loader=DataLoader(TensorDataset(pixels[val], labels[val]), 200),
        scheduler=torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs),
        evaluate=evaluate,
    )
    return program, Spec(
        task="classification", classes=CLASSES, epochs=epochs, scheduler_steps="epoch", shift_expected=True
    )
