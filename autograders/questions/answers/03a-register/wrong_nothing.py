# points: 0
# misconception: nothing-registered
# about: runs, and owns nothing: the answer that only computes
class Scaled(nn.Module):
    def __init__(self, layers, mean, temperature):
        super().__init__()
        self.layers = tuple(layers)
        self.running_mean = mean
        self.temperature = temperature

    def forward(self, x):
        if self.training:
            old, new = self.running_mean.data, x.detach().mean(0)
            old.copy_(0.9 * old + 0.1 * new)
        hidden = x - self.running_mean
        for step in self.layers:
            hidden = step(hidden)
        return hidden / self.temperature
