# points: 4
# about: autograd computes the gradients, in float32: the same numbers, which is allowed
def square_graph(w, x, b):
    w, x, b = (torch.tensor(number, requires_grad=True) for number in (w, x, b))
    product = torch.mul(w, x)
    shifted = product + b
    squared = shifted.square()
    squared.backward()
    return (product, shifted, squared), tuple(leaf.grad for leaf in (w, x, b))


def relu_graph(w1, w2, x, y):
    w1, w2 = torch.tensor(w1, requires_grad=True), torch.tensor(w2, requires_grad=True)
    h = torch.relu(w1 * x)
    p = torch.relu(w2 * h)
    loss = (p - y).square()
    return (h, p, loss), torch.autograd.grad(loss, (w1, w2))
