# points: 5
# misconception: environment-missing
def run_recipe(build_model, x, y, split, config):
    from dataclasses import asdict

    from lecture_lib.experiments import RunRecord, content_id, set_seed

    seed = config["seed"]
    set_seed(seed)
    model = build_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["learning_rate"])
    training, validation = split
    train_loader = TensorLoader(x[training], y[training], batch_size=config["batch_size"], shuffle=True, seed=seed)
    val_loader = TensorLoader(x[validation], y[validation], batch_size=256)
    ids = {"data_id": content_id(x, y), "split_id": content_id(*split)}
    with RunRecord.start(config, seed=seed, **ids) as record:
        history = train(
            model, train_loader, val_loader, optimizer, nn.CrossEntropyLoss(), config["epochs"],
            on_epoch=lambda row: record.log(**asdict(row)),
        )  # fmt: skip
    model.load_state_dict(history.best_state)
    record.hardware = {}
    return model, record
