# points: 8
# about: the three numbers one after the other, by a generator
def baselines(y_train, y_val, classes):
    majority = y_train.mode().values
    yield (y_val == majority).float().mean()
    frequencies = torch.nn.functional.one_hot(y_train, classes).double().mean(dim=0)
    yield torch.nn.functional.cross_entropy(frequencies.log().repeat(len(y_val), 1), y_val)
    yield -math.log(1 / classes)
