# points: 8
# about: the course's own splits
def make_split(table, deployed_on, val_fraction):
    from lecture_lib.data import chronological_split, grouped_split

    fractions = (1 - val_fraction, val_fraction)
    if deployed_on == "later days":
        return chronological_split(table["day"], fractions)
    if deployed_on == "new patients":
        return grouped_split(table["patient"], fractions, labels=table["label"], seed=0)
    column = {"new videos": "video", "new users": "user", "new texts": "text"}[deployed_on]
    return grouped_split(table[column], fractions, seed=0)
