# points: 6
# misconception: by-number
# about: documents by their number
def make_split(table, deployed_on, val_fraction):
    if deployed_on == "later days":
        order = np.argsort(table["day"])
        cut = round(len(order) * (1 - val_fraction))
        return order[:cut], order[cut:]
    column = {"new patients": "patient", "new videos": "video", "new users": "user", "new texts": "document"}[deployed_on]
    names, first = np.unique(table[column], return_index=True)
    classes = table["label"][first] if column == "patient" else np.zeros(len(names))
    chosen = []
    for one in np.unique(classes):
        own = names[classes == one]
        chosen += list(own[: round(val_fraction * len(own))])
    in_val = np.isin(table[column], chosen)
    return np.flatnonzero(~in_val), np.flatnonzero(in_val)
