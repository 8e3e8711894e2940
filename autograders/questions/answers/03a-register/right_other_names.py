# points: 7
# about: every layer an attribute of its own, other names, a deep copy; the temperature made by register_parameter
class Scaled(nn.Module):
    def __init__(self, layers, mean, temperature):
        import copy

        nn.Module.__init__(self)
        self.depth = len(layers)
        for number, layer in enumerate(layers):
            setattr(self, f"layer{number}", copy.deepcopy(layer))
        self.register_parameter("t", nn.Parameter(torch.full((), temperature)))
        self.register_buffer("m", mean.detach().clone())

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.m += 0.1 * (x.mean(dim=0) - self.m)
        x = x - self.m
        for number in range(self.depth):
            x = getattr(self, f"layer{number}")(x)
        return x / self.t
