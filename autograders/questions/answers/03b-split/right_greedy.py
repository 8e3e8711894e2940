# points: 8
# about: loops and sets: groups go to validation until it is full, class by class for patients; lists returned
def make_split(table, deployed_on, val_fraction):
    rows = range(len(table["label"]))
    if deployed_on == "later days":
        oldest_first = sorted(rows, key=lambda row: table["day"][row])
        cut = int((1 - val_fraction) * len(oldest_first))
        return oldest_first[:cut], oldest_first[cut:]
    column = {"new patients": "patient", "new videos": "video", "new users": "user", "new texts": "text"}[deployed_on]
    strata = table["label"] if column == "patient" else np.zeros(len(rows))
    val = set()
    for stratum in np.unique(strata):
        members = [row for row in rows if strata[row] == stratum]
        taken = 0
        for name in dict.fromkeys(table[column][members].tolist()):
            if taken >= val_fraction * len(members):
                break
            group = [row for row in members if table[column][row] == name]
            val.update(group)
            taken += len(group)
    return set(rows) - val, val
