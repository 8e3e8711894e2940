# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 03d · Signals, then regularisation

# %% tags=["setup"]
import math

import torch
from lecture_lib.notebook import check, show_progress

# %% [markdown]
# ### Question 03d-norms · 16 points

# %% nbgrader={"grade": false, "grade_id": "03d-norms", "locked": false, "schema_version": 3, "solution": true, "task": false}
def standardise(x, dims, eps):
    """Return x with mean 0 and variance 1 over some axes."""
    ### BEGIN SOLUTION
    variance = x.var(dim=dims, correction=0, keepdim=True)
    return (x - x.mean(dim=dims, keepdim=True)) / torch.sqrt(variance + eps)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "03d-norms-test", "locked": true, "points": 16, "schema_version": 3, "solution": false, "task": false}
check("03d-norms", batch_norm, layer_norm, group_norm, rms_norm)
### BEGIN HIDDEN TESTS
from autograders.probes import probe

probe("03d-norms", batch_norm, layer_norm, group_norm, rms_norm)
### END HIDDEN TESTS
