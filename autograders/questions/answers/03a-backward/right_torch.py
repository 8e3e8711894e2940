# points: 8
# about: tensors of PyTorch as a calculator, no autograd
def relu_rule(x, gradient):
    x, gradient = torch.tensor(x), torch.tensor(gradient)
    return torch.where(x > 0, gradient, 0.0)


def linear_rule(x, weight, bias, gradient):
    x, weight, gradient = (torch.tensor(array) for array in (x, weight, gradient))
    return torch.mm(gradient, weight.t()), torch.mm(x.t(), gradient), gradient.sum(dim=0).reshape(bias.shape)
