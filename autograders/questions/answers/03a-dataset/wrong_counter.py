# points: 2
# misconception: ignores-index
# about: gives the next file, whatever was asked for
class ImageFiles(Dataset):
    def __init__(self, paths, labels, transform=None):
        self.paths, self.labels, self.transform = paths, labels, transform
        self.next = 0

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        index = self.next % len(self.paths)
        self.next += 1
        with Image.open(self.paths[index]) as file:
            pixels = np.array(file.convert("RGB"))
        image = torch.tensor(pixels).permute(2, 0, 1) / 255
        if self.transform is not None:
            image = self.transform(image)
        return image, self.labels[index]


def make_loader(dataset, batch_size, training, seed, workers=0):
    return DataLoader(
        dataset,
        batch_size=batch_size,
        shuffle=training,
        drop_last=training,
        num_workers=workers,
        persistent_workers=workers > 0,
        generator=torch.Generator().manual_seed(seed),
    )
