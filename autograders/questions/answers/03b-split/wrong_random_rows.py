# points: 0
# misconception: random-rows
# about: a stratified random split of the rows
def make_split(table, deployed_on, val_fraction):
    from sklearn.model_selection import train_test_split

    rows = np.arange(len(table["label"]))
    return train_test_split(rows, test_size=val_fraction, stratify=table["label"], random_state=0)
