# points: 8
# about: scikit-learn: whole groups, patients stratified by their class
def make_split(table, deployed_on, val_fraction):
    from sklearn.model_selection import GroupShuffleSplit, train_test_split

    if deployed_on == "later days":
        order = np.argsort(table["day"])
        cut = round(len(order) * (1 - val_fraction))
        return order[:cut], order[cut:]
    if deployed_on == "new patients":
        patients, first = np.unique(table["patient"], return_index=True)
        train, val = train_test_split(
            patients, test_size=val_fraction, stratify=table["label"][first], random_state=1
        )
        return np.flatnonzero(np.isin(table["patient"], train)), np.flatnonzero(np.isin(table["patient"], val))
    groups = table[deployed_on.split()[1][:-1]]
    splitter = GroupShuffleSplit(n_splits=1, test_size=val_fraction, random_state=1)
    return next(splitter.split(groups, groups=groups))
