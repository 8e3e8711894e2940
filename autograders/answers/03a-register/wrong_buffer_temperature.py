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
            with torch.no_grad():
                self.running_mean.lerp_(x.mean(dim=0), 0.1)
        x = x - self.running_mean
        for layer in self.layers:
            x = layer(x)
        return x / self.temperature
