# points: 6
# about: one-cycle with clipping, a config with settings of its own, rows taken from the history, the best by load
def run_recipe(build_model, x, y, split, config):
    from lecture_lib.experiments import RunRecord, content_id, set_seed
    from lecture_lib.training import one_cycle

    generator = set_seed(config["seed"])
    model = build_model()
    parts = [torch.utils.data.TensorDataset(x[rows], y[rows]) for rows in split]
    loaders = [
        torch.utils.data.DataLoader(parts[0], batch_size=config["batch_size"], shuffle=True, generator=generator),
        torch.utils.data.DataLoader(parts[1], batch_size=7),
    ]
    record = RunRecord.start(
        {**config, "optimizer": "AdamW", "max_norm": 1.0},
        seed=config["seed"],
        data_id=content_id(x.numpy(), y.numpy()),
        split_id=content_id(*split),
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["learning_rate"], weight_decay=0.1)
    schedule = one_cycle(config["learning_rate"])
    history = train(
        model, *loaders, optimizer, nn.functional.cross_entropy, config["epochs"], max_norm=1.0, schedule=schedule
    )
    for row in history.as_rows():
        record.log(**row)
    record.finish()
    model.load_state_dict(history.best_state)
    return model, record
