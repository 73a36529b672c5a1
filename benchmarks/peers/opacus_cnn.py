"""The network of cnn.py trained by Opacus 1.6.0: DP-SGD with Poisson sampling.

    python opacus_cnn.py FOLDER

FOLDER/job.json says epsilon (null for no privacy: plain SGD), delta, seed, epochs and so on;
train.npz holds ``x`` (uint8) and ``y``. Writes network.npz and peer.json.
"""

import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from cnn import network
from opacus import PrivacyEngine

warnings.simplefilter("ignore")


def main():
    """Train once."""
    folder = Path(sys.argv[1])
    job = json.loads((folder / "job.json").read_text())
    torch.manual_seed(job["seed"])
    torch.set_num_threads(job["threads"])
    start = time.perf_counter()
    model, epsilon = train(job, *read(folder))
    seconds = time.perf_counter() - start
    state = getattr(model, "_module", model).state_dict()
    np.savez(folder / "network.npz", **{name: value.numpy() for name, value in state.items()})
    facts = {"epsilon": epsilon, "seconds": round(seconds, 1), "torch": torch.__version__}
    (folder / "peer.json").write_text(json.dumps(facts))


def read(folder):
    """Images in [0, 1] and their classes."""
    with np.load(folder / "train.npz") as file:
        x = torch.from_numpy(file["x"].astype(np.float32)[:, None] / 255.0)
        return x, torch.from_numpy(file["y"].astype(np.int64))


def train(job, x, y):
    """The trained network and the epsilon that Opacus claims for it."""
    data = torch.utils.data.TensorDataset(x, y)
    loader = torch.utils.data.DataLoader(data, batch_size=job["batch"], shuffle=True)
    model, engine = network(), None
    optimizer = torch.optim.SGD(model.parameters(), lr=job["learning_rate"], momentum=0.9)
    if job["epsilon"] is not None:
        engine = PrivacyEngine(accountant="rdp")
        model, optimizer, loader = engine.make_private_with_epsilon(
            module=model,
            optimizer=optimizer,
            data_loader=loader,
            target_epsilon=job["epsilon"],
            target_delta=job["delta"],
            epochs=job["epochs"],
            max_grad_norm=job["clip"],
        )
    loss = torch.nn.CrossEntropyLoss()
    for epoch in range(job["epochs"]):
        for images, classes in loader:
            optimizer.zero_grad()
            if len(images):
                loss(model(images), classes).backward()
            optimizer.step()
        print(f"epoch {epoch + 1} of {job['epochs']}", flush=True)
    return model, None if engine is None else engine.get_epsilon(job["delta"])


if __name__ == "__main__":
    main()
