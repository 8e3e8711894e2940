# points: 6
# about: torchvision's conversion, labels as tensors, two branches for the loader
class ImageFiles(torch.utils.data.Dataset):
    def __init__(self, paths, labels, transform=None):
        super().__init__()
        self.paths = list(paths)
        self.labels = torch.tensor(labels)
        self.transform = transform

    def __len__(self):
        return self.labels.numel()

    def __getitem__(self, index):
        from torchvision.transforms.functional import to_tensor

        image = to_tensor(Image.open(self.paths[index]).convert("RGB"))
        return (self.transform(image) if self.transform else image), self.labels[index]


def make_loader(dataset, batch_size, training, seed, workers=0):
    if training:
        generator = torch.Generator()
        generator.manual_seed(seed)
        return DataLoader(dataset, batch_size, shuffle=True, generator=generator, num_workers=workers, drop_last=True)
    return DataLoader(dataset, batch_size, num_workers=workers)
