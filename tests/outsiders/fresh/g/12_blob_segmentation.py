"""Segment bright blobs in noisy 24x24 images with a small encoder-decoder; flips as augmentation.

Fault: the random horizontal flip is applied to the image and not to its mask, as happens when a transform written for
classification is put into a segmentation data set. Half of the training pairs are wrong wherever the blob is not in the
middle. Validation has no augmentation and is right.

Measured (seeds 0 and 1): validation IoU 0.795 and 0.820 faulty, 0.888 and 0.887 repaired; validation loss 0.074 and
0.092 against 0.025 and 0.024.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("labels", "inputs")
EPOCHS = 15
SIZE = 24


class FlippedImages(Dataset):
    """Images and masks with random flips."""

    def __init__(self, images: Tensor, masks: Tensor) -> None:
        self.images = images
        self.masks = masks

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        image, mask = self.images[index], self.masks[index]
        if torch.rand(()) < 0.5:
            image, mask = image.flip(-1), mask.flip(-1)
        return image, mask


class FlippedImagesOnly(FlippedImages):
    """The same, with the flip that classification uses."""

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        image, mask = self.images[index], self.masks[index]
        if torch.rand(()) < 0.5:
            image = image.flip(-1)
        return image, mask


class Segmenter(nn.Module):
    """Two levels with one skip connection."""

    def __init__(self) -> None:
        super().__init__()
        self.fine = nn.Sequential(nn.Conv2d(1, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU())
        self.coarse = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(12, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU())
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.out = nn.Sequential(nn.Conv2d(36, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 1, 1))

    def forward(self, images: Tensor) -> Tensor:
        """Logits of the mask: (batch, 1, height, width)."""
        fine = self.fine(images)
        return self.out(torch.cat([fine, self.up(self.coarse(fine))], dim=1))


def _data(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    rows, columns = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
    centre = 7 + 9 * torch.rand(count, 2, 1, 1, generator=generator)
    radii = 2.5 + 3 * torch.rand(count, 2, 1, 1, generator=generator)
    inside = ((rows - centre[:, 0]) / radii[:, 0]) ** 2 + ((columns - centre[:, 1]) / radii[:, 1]) ** 2 < 1
    masks = inside.float().unsqueeze(1)
    return 1.5 * masks + 0.8 * torch.randn(masks.shape, generator=generator), masks


def _iou(outputs: Tensor, targets: Tensor) -> float:
    predicted = (outputs > 0).float()
    both = (predicted * targets).sum((1, 2, 3))
    return float((both / (predicted + targets - predicted * targets).sum((1, 2, 3)).clamp(min=1)).mean())


def _build(seed: int, kind: type[FlippedImages]) -> tuple[Program, Spec]:
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    images, masks = _data(400, generator)
    images_val, masks_val = _data(150, generator)
    mean, std = images.mean(), images.std()
    model = Segmenter()
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=3e-3),
        loss_fn=nn.BCEWithLogitsLoss(),
        train_loader=DataLoader(
            kind((images - mean) / std, masks), 20, shuffle=True, generator=torch.Generator().manual_seed(seed)
        ),
        val_loader=DataLoader(TensorDataset((images_val - mean) / std, masks_val), 50),
        metric=_iou,
    )
    return program, Spec(task="segmentation", classes=2, epochs=EPOCHS)


def make(seed: int) -> tuple[Program, Spec]:
    """The faulty program."""
    return _build(seed, FlippedImagesOnly)


def twin(seed: int) -> tuple[Program, Spec]:
    """The program repaired."""
    return _build(seed, FlippedImages)
