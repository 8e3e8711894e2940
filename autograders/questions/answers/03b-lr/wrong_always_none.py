# points: 0
# misconception: always-none
# about: never chooses
def choose_rate(rates, losses):
    return None if len(rates) else None
