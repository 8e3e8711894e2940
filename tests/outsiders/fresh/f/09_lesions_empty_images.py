"""Segmenting small lesions in 24 by 24 slices, most of which hold none: a small convolutional network.

Fault: the reported Dice is the mean over images of (2 overlap + 1) / (sizes + 1). On an image without lesion,
where nothing is predicted either, that is exactly 1, and four images in five are such: finding hardly anything
looks like excellent work. The one keeps a division by zero out of the loss, where it does no harm, and comes with
the function when that is used as the metric too.

Measured (seeds 0 and 1): reports a Dice of 0.72 and 0.83 after 10 epochs and of 0.79 and 0.80 after the first,
when no pixel is found; twin, with the same weights, 0.44 and 0.32 (0.00 after the first).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("metric",)

SIZE, LESION_SHARE = 24, 0.2


def slices(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Images (count, 1, height, width) of noisy tissue and masks of the lesions, discs that are a little brighter."""
    tissue = torch.randn(count, 1, SIZE // 4, SIZE // 4, generator=generator)
    tissue = 0.3 * F.interpolate(tissue, scale_factor=4, mode="bilinear")
    centre = 4 + (SIZE - 8) * torch.rand(count, 2, 1, 1, generator=generator)
    radius = 1.5 + 1.5 * torch.rand(count, 1, 1, generator=generator)
    ill = torch.rand(count, 1, 1, generator=generator) < LESION_SHARE
    row, column = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
    distance = ((row - centre[:, 0]).square() + (column - centre[:, 1]).square()).sqrt()
    mask = ((distance < radius) & ill).float()[:, None]
    return tissue + 0.7 * mask + 0.4 * torch.randn(count, 1, SIZE, SIZE, generator=generator), mask


def dice_by_image(logits: Tensor, mask: Tensor) -> float:
    """Dice of each image, smoothed by one pixel, averaged."""
    predicted = (logits > 0).float()
    overlap = (predicted * mask).sum((1, 2, 3))
    sizes = predicted.sum((1, 2, 3)) + mask.sum((1, 2, 3))
    return ((2 * overlap + 1) / (sizes + 1)).mean().item()


def dice_of_pixels(logits: Tensor, mask: Tensor) -> float:
    """Dice over the pixels of all images together."""
    predicted = (logits > 0).float()
    sizes = predicted.sum() + mask.sum()
    return (2 * (predicted * mask).sum() / sizes.clamp(min=1)).item()


def build(seed: int, by_image: bool) -> tuple[Program, Spec]:
    """The program, with the Dice averaged over images or taken over all pixels."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    train = TensorDataset(*slices(400, generator))
    val = TensorDataset(*slices(300, generator))

    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1),
        nn.BatchNorm2d(12),
        nn.SiLU(),
        nn.Conv2d(12, 12, 3, padding=1),
        nn.BatchNorm2d(12),
        nn.SiLU(),
        nn.Conv2d(12, 1, 3, padding=1),
    )
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=3e-3),
        loss_fn=F.binary_cross_entropy_with_logits,
        train_loader=DataLoader(train, 16, shuffle=True, generator=generator),
        val_loader=DataLoader(val, 100),
        metric=dice_by_image if by_image else dice_of_pixels,
    )
    return program, Spec(task="segmentation", epochs=10)


def make(seed: int) -> tuple[Program, Spec]:
    """The faulty program."""
    return build(seed, by_image=True)


def twin(seed: int) -> tuple[Program, Spec]:
    """The same with the Dice of all pixels together."""
    return build(seed, by_image=False)
