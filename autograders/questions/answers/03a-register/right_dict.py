# points: 7
# about: a ModuleDict, and the temperature in a ParameterList; the first layer registered under a second name too
class Scaled(nn.Module):
    def __init__(self, layers, mean, temperature):
        super().__init__()
        self.layers = nn.ModuleDict({str(number): layer for number, layer in enumerate(layers)})
        self.first = layers[0]
        self.register_buffer("running_mean", torch.empty_like(mean))
        self.running_mean.copy_(mean)
        self.scales = nn.ParameterList([torch.tensor([temperature])])

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.running_mean.mul_(0.9).add_(x.mean(dim=0), alpha=0.1)
        x = x - self.running_mean
        for layer in self.layers.values():
            x = layer(x)
        return x / self.scales[0]
