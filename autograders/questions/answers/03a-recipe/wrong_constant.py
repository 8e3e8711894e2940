# points: 0
# misconception: untrained
# about: the constant answer: an untrained network and an empty record
def run_recipe(build_model, x, y, split, config):
    return build_model(), {}
