# points: 0
# misconception: same-for-all-inputs
# about: the constant answer: the lecture's numbers
def square_graph(w, x, b):
    return [6, 7, 49], [28, 42, 14]


def relu_graph(w1, w2, x, y):
    return [1, 0.5, 0.25], [-1, -1]
