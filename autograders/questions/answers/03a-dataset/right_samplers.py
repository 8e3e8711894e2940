# points: 6
# about: no base class, pil_to_tensor, a batch sampler built by hand; the transform's default is a function
def unchanged(image):
    return image


class ImageFiles:
    def __init__(self, paths, labels, transform=None):
        self.examples = [(path, int(label)) for path, label in zip(paths, labels)]
        self.transform = transform or unchanged

    def __len__(self):
        return sum(1 for _ in self.examples)

    def __getitem__(self, index):
        from torchvision.transforms.functional import pil_to_tensor

        path, label = self.examples[index]
        return self.transform(pil_to_tensor(Image.open(path).convert("RGB")).float().div(255.0)), label


class Order:
    def __init__(self, examples, batch_size, seed):
        self.examples, self.batch_size, self.random = examples, batch_size, np.random.default_rng(seed)

    def __iter__(self):
        order = self.random.permutation(self.examples).tolist()
        for start in range(0, self.examples - self.batch_size + 1, self.batch_size):
            yield order[start : start + self.batch_size]

    def __len__(self):
        return self.examples // self.batch_size


def make_loader(dataset, batch_size, training, seed, workers=0):
    if training:
        return DataLoader(dataset, batch_sampler=Order(len(dataset), batch_size, seed), num_workers=workers)
    return DataLoader(dataset, batch_size=batch_size, shuffle=False, drop_last=False, num_workers=workers)
