"""Releases in child processes that are killed at random moments; run as a script by T-KILL."""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np
import torch

import dpgist as dg
from dpgist.privacy import curator
from dpgist.privacy.ledger import Ledger

SCHEMA = dg.Schema(
    name="t",
    columns=(dg.NumberColumn(name="x", min=0.0, max=1.0), dg.BooleanColumn(name="y")),
    label="y",
)
BUDGET = dg.Budget(epsilon=0.01, delta=1e-5)
METHOD = dg.Merf(joint_frequencies=50, pair_frequencies=50)


def prepare(folder):
    if not (folder / "ledger").exists():
        Ledger.create(folder / "ledger", name="t", epsilon=50, delta=1e-5, relation="add_remove")
        rows = np.random.default_rng(0).random(3_000)
        lines = [f"{x:.3f},{x > 0.5}" for x in rows]
        (folder / "data.csv").write_text("\n".join(["x,y", *lines]) + "\n")


def release(folder, name):
    gist = dg.release(folder / "data.csv", SCHEMA, METHOD, BUDGET, ledger=folder / "ledger")
    gist.save(folder / f"{name}.gist")


def killed_child(folder, number):
    child = os.fork()
    if child == 0:
        torch.set_num_threads(1)
        for attempt in range(10_000):
            release(folder, f"{number}-{attempt}")
        os._exit(0)
    time.sleep(random.uniform(0.05, 0.6))
    os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    return "killed" if os.WIFSIGNALED(status) else "ended"


def die_between_charge_and_release(folder):
    child = os.fork()
    if child == 0:
        curator._look = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        release(folder, "never")
        os._exit(0)
    os.waitpid(child, 0)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    from tests.trust.planting import plant_from_environment

    plant_from_environment()
    where, what = Path(sys.argv[1]), sys.argv[2]
    prepare(where)
    if what == "between":
        die_between_charge_and_release(where)
    elif what == "once":
        release(where, "once")
    else:
        print(json.dumps([killed_child(where, number) for number in range(int(what))]))  # noqa: T201
