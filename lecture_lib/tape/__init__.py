"""Part 1 of the lecture: a tiny reverse-mode autograd on NumPy, to read, to step through and to train digits with.

`tensor` says what is recorded and how gradients flow back, `operations` holds every operation with its backward rules.
"""

from .gradcheck import GradientError, gradcheck
from .graph import no_grad
from .layers import Linear, ReLU, Sequential
from .operations.arithmetic import linear, matmul
from .operations.functions import cross_entropy, exp, log, log_softmax, relu, sigmoid, sqrt, tanh
from .operations.shapes import concatenate
from .optimizers import SGD, Adam
from .tensor import Tensor, record

__all__ = [
    "SGD",
    "Adam",
    "GradientError",
    "Linear",
    "ReLU",
    "Sequential",
    "Tensor",
    "concatenate",
    "cross_entropy",
    "exp",
    "gradcheck",
    "linear",
    "log",
    "log_softmax",
    "matmul",
    "no_grad",
    "record",
    "relu",
    "sigmoid",
    "sqrt",
    "tanh",
]
