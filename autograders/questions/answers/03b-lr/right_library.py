# points: 6
# about: the library's own rule
def choose_rate(rates, losses):
    from lecture_lib.training import suggest_learning_rates

    keep = [number for number, loss in enumerate(losses) if math.isfinite(loss)]
    return suggest_learning_rates(rates[keep], losses[keep])[0].get("valley_floor")
