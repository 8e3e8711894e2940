# points: 6
# about: torch: the steepest fall of a moving average on the log-rate axis, up to its minimum
def choose_rate(rates, losses):
    logs, values = torch.tensor(rates).log10(), torch.tensor(losses)
    keep = values.isfinite()
    logs, values = logs[keep], values[keep]
    if len(values) == 0 or values.min() > 0.9 * values[0]:
        return None
    width = 2 * (len(values) // 20) + 1
    padded = nn.functional.pad(values[None, None], (width // 2, width // 2), mode="replicate")
    smooth = nn.functional.avg_pool1d(padded, width, stride=1)[0, 0]
    end = max(3, int(smooth.argmin()) + 1)
    slope = torch.gradient(smooth[:end], spacing=(logs[:end],))[0]
    return 10 ** logs[1 + slope[1:].argmin()]
