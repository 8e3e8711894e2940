# points: 6
# misconception: classes-seen
def baselines(y_train, y_val, classes):
    seen, counts = torch.unique(y_train, return_counts=True)
    frequency = dict(zip(seen.tolist(), (counts / counts.sum()).tolist()))
    majority = seen[counts.argmax()]
    constant = sum(-math.log(frequency[label]) for label in y_val.tolist()) / len(y_val)
    return (y_val == majority).double().mean(), constant, math.log(len(seen))
