# points: 6
# about: a loop by hand, SGD with momentum, a DataLoader, a dict for a record, the state instead of the model
def run_recipe(build_model, x, y, split, config):
    import copy
    import platform
    import random
    from datetime import datetime

    import numpy as np
    from torch.utils.data import DataLoader, TensorDataset

    from lecture_lib.experiments import content_id

    for seed_it in (random.seed, np.random.seed, torch.manual_seed):
        seed_it(config["seed"])
    model = build_model()
    training, validation = split
    loader = DataLoader(TensorDataset(x[training], y[training]), batch_size=config["batch_size"], shuffle=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=config["learning_rate"], momentum=0.9)
    loss_fn = nn.CrossEntropyLoss()
    record = {
        "config": config, "seed": config["seed"], "precision": "fp32", "metrics": [], "status": "running",
        "data_id": content_id(x, y), "split_id": content_id(*split), "started": datetime.now().isoformat(),
        "code": {"commit": None, "reason": "a notebook"},
        "hardware": {"python": platform.python_version(), "torch": torch.__version__},
    }  # fmt: skip
    best = None
    for epoch in range(1, config["epochs"] + 1):
        model.train()
        for inputs, labels in loader:
            optimizer.zero_grad()
            loss_fn(model(inputs), labels).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            outputs = model(x[validation])
            row = {
                "epoch": epoch,
                "val_loss": loss_fn(outputs, y[validation]),
                "val_metric": (outputs.argmax(1) == y[validation]).float().mean(),
            }
        record["metrics"].append(row)
        if best is None or row["val_loss"] < best[0]:
            best = row["val_loss"], copy.deepcopy(model.state_dict())
    record["status"] = "finished"
    return best[1], record
