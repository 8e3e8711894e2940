"""A small fully convolutional network marks bright lesions in noisy 32x32 images, trained with the Dice loss.

Fault: the network gives logits, and the Dice loss (V-Net's, with squares in the denominator) gets them without a
sigmoid; the metric, and whoever uses the network, does put the sigmoid in. It comes about when the loss takes the place
of BCEWithLogitsLoss, which has the sigmoid in it. The logits are pulled towards 0 and 1 in place of far below and above
0: the loss falls nicely, but about a third of the background ends above a probability of 0.5.

Measured (seeds 0 and 1): IoU 0.25 and 0.24 faulty, 0.79 and 0.81 repaired; share of the background that is
marked 0.34 and 0.32 faulty, 0.010 and 0.008 repaired.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("loss",)
EPOCHS = 12


def _dice_loss(prediction: Tensor, mask: Tensor) -> Tensor:
    prediction, mask = prediction.flatten(1), mask.flatten(1)
    overlap = (prediction * mask).sum(1)
    size = prediction.pow(2).sum(1) + mask.pow(2).sum(1)
    return (1 - (2 * overlap + 1) / (size + 1)).mean()


def _loss(logits: Tensor, mask: Tensor) -> Tensor:
    return _dice_loss(logits, mask)


def _loss_repaired(logits: Tensor, mask: Tensor) -> Tensor:
    return _dice_loss(logits.sigmoid(), mask)


def _iou(logits: Tensor, mask: Tensor) -> float:
    found, real = logits.sigmoid() > 0.5, mask > 0.5
    return ((found & real).sum() / (found | real).sum()).item()


def _network() -> nn.Module:
    layers: list[nn.Module] = []
    for channels_in, channels_out in ((1, 12), (12, 12), (12, 12)):
        layers += [nn.Conv2d(channels_in, channels_out, 3, padding=1), nn.BatchNorm2d(channels_out), nn.ReLU()]
    return nn.Sequential(*layers, nn.Conv2d(12, 1, 1))


def _images(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    rows, columns = torch.meshgrid(torch.arange(32.0), torch.arange(32.0), indexing="ij")
    masks = torch.zeros(count, 1, 32, 32)
    for mask in masks:
        for _ in range(int(torch.randint(1, 4, (1,), generator=generator))):
            row, column = (4 + 24 * torch.rand(2, generator=generator)).tolist()
            tall, wide = (2 + 4 * torch.rand(2, generator=generator)).tolist()
            mask[0][((rows - row) / tall) ** 2 + ((columns - column) / wide) ** 2 < 1] = 1
    shade = torch.randn(count, 1, 1, 1, generator=generator) * 0.2
    images = 1.0 * masks + shade + 0.6 * torch.randn(masks.shape, generator=generator)
    return images, masks


def _loaders(seed: int) -> tuple[DataLoader, DataLoader]:
    generator = torch.Generator().manual_seed(seed)
    (x, y), (val_x, val_y) = _images(320, generator), _images(100, generator)
    mean, std = x.mean(), x.std()
    train_set, val_set = TensorDataset((x - mean) / std, y), TensorDataset((val_x - mean) / std, val_y)
    return DataLoader(train_set, 16, shuffle=True, generator=generator), DataLoader(val_set, 50)


def make(seed: int) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    train_loader, val_loader = _loaders(seed)
    model = _network()
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=5e-3),
        loss_fn=_loss,
        train_loader=train_loader,
        val_loader=val_loader,
        metric=_iou,
    )
    return program, Spec(task="segmentation", classes=2, epochs=EPOCHS)


def twin(seed: int) -> tuple[Program, Spec]:
    program, spec = make(seed)
    program.loss_fn = _loss_repaired
    return program, spec
