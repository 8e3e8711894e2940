# points: 8
# about: plain Python
def baselines(y_train, y_val, classes):
    train, val = y_train.tolist(), y_val.tolist()
    counts = {label: train.count(label) for label in set(train)}
    majority = max(counts, key=counts.get)
    constant = sum(-math.log(counts[label] / len(train)) for label in val) / len(val)
    uniform = torch.nn.functional.cross_entropy(torch.zeros(1, classes), torch.tensor([0]))
    return val.count(majority) / len(val), constant, uniform.item()
