# points: 0
# misconception: constant-answer
class ImageFiles(Dataset):
    def __init__(self, paths, labels, transform=None):
        with Image.open(paths[0]) as file:
            self.size = file.size[::-1]

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.zeros(3, *self.size), 0


def make_loader(dataset, batch_size, training, seed, workers=0):
    return DataLoader(dataset, batch_size)
