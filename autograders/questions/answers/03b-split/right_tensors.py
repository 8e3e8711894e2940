# points: 8
# about: torch: a mask over groups; tensors returned
def make_split(table, deployed_on, val_fraction):
    count = len(table["label"])
    if deployed_on == "later days":
        order = torch.from_numpy(table["day"]).argsort()
        return order.split([count - int(val_fraction * count), int(val_fraction * count)])
    names = {"new patients": "patient", "new videos": "video", "new users": "user", "new texts": "text"}
    number = torch.from_numpy(np.unique(table[names[deployed_on]], return_inverse=True)[1])
    in_val = torch.zeros(int(number.max()) + 1, dtype=torch.bool)
    of_group = torch.zeros(len(in_val), dtype=torch.long)
    if deployed_on == "new patients":
        of_group[number] = torch.from_numpy(table["label"])
    for label in of_group.unique():
        groups = (of_group == label).nonzero().flatten()
        drawn = groups[torch.randperm(len(groups), generator=torch.Generator().manual_seed(3))]
        in_val[drawn[: round(val_fraction * len(groups))]] = True
    mask = in_val[number]
    return (~mask).nonzero().flatten(), mask.nonzero().flatten()
