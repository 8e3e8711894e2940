# points: 8
# about: NumPy throughout, an array given back
def baselines(y_train, y_val, classes):
    import numpy as np

    labels, counts = np.unique(y_train.numpy(), return_counts=True)
    probability = dict(zip(labels, counts / counts.sum()))
    val = y_val.numpy()
    accuracy = np.mean(val == labels[np.argmax(counts)])
    return np.array([accuracy, -np.mean([np.log(probability[label]) for label in val]), np.log(classes)])
