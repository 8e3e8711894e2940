# points: 6
# about: channels stacked one by one, a RandomSampler with its own generator, a cache that belongs to the object
class ImageFiles(Dataset):
    def __init__(self, paths, labels, transform=None):
        self.paths, self.labels, self.transform = paths, labels, transform
        self.decoded = {}

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        if index not in self.decoded:
            bands = Image.open(self.paths[index]).convert("RGB").split()
            self.decoded[index] = torch.stack([torch.from_numpy(np.array(band, dtype=np.float32)) for band in bands])
        image = self.decoded[index] / 255.0
        if self.transform:
            image = self.transform(image)
        return image, np.int64(self.labels[index])


def make_loader(dataset, batch_size, training, seed, workers=0):
    sampler = torch.utils.data.SequentialSampler(dataset)
    if training:
        sampler = torch.utils.data.RandomSampler(dataset, generator=torch.Generator().manual_seed(seed))
    return DataLoader(dataset, batch_size=batch_size, sampler=sampler, drop_last=bool(training), num_workers=workers)
