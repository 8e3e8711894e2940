"""Segmentation: background, discs and bars in noisy 24x24 images; small convolutional net, Dice loss.

Fault: the Dice loss takes the softmax over the last dimension (the image's columns) and not over the channels.
`dim=-1` stayed from the classifier's code, where the last dimension is the classes.

Measured (seeds 0 and 1): mean IoU 0.36 and 0.45 faulty, 0.93 and 0.93 twin.
"""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from lecture_lib.debugging.program import Program, Spec

PART = ("loss",)
SIZE, CLASSES = 24, 3


def scenes(count, g):
    rows, columns = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
    mask = torch.zeros(count, SIZE, SIZE, dtype=torch.long)
    for i in range(count):
        cy, cx, by, bx = torch.randint(4, SIZE - 4, (4,), generator=g).tolist()
        radius = int(torch.randint(3, 6, (1,), generator=g))
        mask[i][(rows - cy) ** 2 + (columns - cx) ** 2 <= radius**2] = 1
        mask[i][((rows - by).abs() <= 1) & ((columns - bx).abs() <= 6)] = 2
    level = torch.tensor([0.0, 1.0, 0.8])[mask]
    return (level + 0.35 * torch.randn(mask.shape, generator=g))[:, None], mask


def conv(inside, outside, dilation=1):
    return nn.Sequential(
        nn.Conv2d(inside, outside, 3, padding=dilation, dilation=dilation), nn.BatchNorm2d(outside), nn.ReLU()
    )


class SoftDice(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, logits, mask):
        p = F.softmax(logits, dim=self.dim)
        t = F.one_hot(mask, CLASSES).permute(0, 3, 1, 2).float()
        overlap = (p * t).sum((0, 2, 3))
        size = p.sum((0, 2, 3)) + t.sum((0, 2, 3))
        return 1 - (2 * overlap / (size + 1e-6)).mean()


def mean_iou(logits, mask):
    guess = logits.argmax(1)
    ious = []
    for c in range(CLASSES):
        both = ((guess == c) & (mask == c)).sum()
        either = ((guess == c) | (mask == c)).sum()
        ious.append(both / either.clamp(min=1))
    return torch.stack(ious).mean().item()


def build(seed: int, ok: bool):
    torch.manual_seed(seed)
    g = torch.Generator().manual_seed(seed)
    train, val = scenes(300, g), scenes(100, g)
    model = nn.Sequential(conv(1, 12), conv(12, 16, 2), conv(16, 16, 4), nn.Conv2d(16, CLASSES, 1))
    program = Program(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=5e-3),
        loss_fn=SoftDice(dim=1 if ok else -1),
        train_loader=DataLoader(TensorDataset(*train), 20, shuffle=True, generator=torch.Generator().manual_seed(seed)),
        val_loader=DataLoader(TensorDataset(*val), 50),
        metric=mean_iou,
    )
    return program, Spec(task="segmentation", classes=CLASSES, epochs=15)


def make(seed: int):
    return build(seed, ok=False)


def twin(seed: int):
    return build(seed, ok=True)
