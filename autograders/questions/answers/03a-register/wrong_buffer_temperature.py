# points: 3
# misconception: temperature-as-buffer
# about: a buffer (torch 2.5 has a class for it)
class Scaled(nn.Module):
    def __init__(self, layers, mean, temperature):
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.register_buffer("running_mean", mean)
        self.temperature = nn.Buffer(torch.tensor(temperature))

    def forward(self, x):
        if self.training:
            old, new = self.running_mean.data, x.detach().mean(0)
            old.copy_(0.9 * old + 0.1 * new)
        hidden = x - self.running_mean
        for step in self.layers:
            hidden = step(hidden)
        return hidden / self.temperature
