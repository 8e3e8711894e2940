# points: 2
# misconception: layers-hidden
# about: a plain list, as it was given
class Scaled(nn.Module):
    def __init__(self, layers, mean, temperature):
        super().__init__()
        self.layers = layers
        self.register_buffer("running_mean", mean)
        self.temperature = nn.Parameter(torch.tensor(temperature))

    def forward(self, x):
        if self.training:
            old, new = self.running_mean.data, x.detach().mean(0)
            old.copy_(0.9 * old + 0.1 * new)
        hidden = x - self.running_mean
        for step in self.layers:
            hidden = step(hidden)
        return hidden / self.temperature
