# points: 5
# misconception: never-shuffled
class ImageFiles(Dataset):
    def __init__(self, paths, labels, transform=None):
        self.paths, self.labels, self.transform = paths, labels, transform

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
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
        shuffle=False,
        drop_last=training,
        num_workers=workers,
        persistent_workers=workers > 0,
        generator=torch.Generator().manual_seed(seed),
    )
