"""Digits and clothes: train a CNN on synthetic images, test it on real ones.

    python benchmarks/images.py release --data mnist --epsilon 1 --out mnist-1.gist
    python benchmarks/images.py train mnist-1.gist --seeds 0 1 2 --test mnist-test.npz
    python benchmarks/images.py fid FOLDER --data mnist --test mnist-test.npz --inception FILE
    python benchmarks/images.py redraw MODELS FOLDER
    python benchmarks/images.py real --data mnist
    python benchmarks/images.py twelve FOLDER --data mnist --test mnist-test.npz
    python benchmarks/images.py laptop --data mnist --epsilon 1 --folder NEW
    python benchmarks/images.py grid FOLDER/FILE.npz ... --out grid.png

``release`` reads ``$DPGIST_DATA`` (default ``../shared/data``) and writes a gist and, beside it,
the test images: two small files from which ``train`` does the rest, on another machine if need be.
With ``--held-out`` it releases all but the last 10,000 training images and tests on those: that
is where settings are chosen, given by ``--settings`` (JSON) or by a name in ``VARIANTS``.
``train`` appends every seed to the result file as it is done, skips seeds that it finds there, and
goes on from its last checkpoint if it was stopped in the middle of one; with ``--samples FOLDER``
it keeps the synthetic images there, and ``redraw`` makes them from models kept by ``--models``.
``fid`` adds to each run the Frechet distance of its kept images to the test images; ``twelve``
trains the papers' 12 classifiers on kept images, one process each, and writes a file of its own
(the slow four on 10,000 images, as in ``papers.py``); ``laptop`` times `dpgist synthesize` from
images to images on this machine's processor, on a clock on the wall; ``grid`` shows kept images of
each run; ``real`` scores the real training images, which set the mark. CIFAR-10 has to be prepared
first: see ``cifar10.py``.

The CNN is that of appendix F of
"Functional Renyi Differential Privacy for Generative Modeling" (Jiang, Sun and Yu 2023), trained on
60,000 synthetic images for 5 epochs of Adam (1e-3) in batches of 200; settings of the method were
not chosen on the test images.
"""

from __future__ import annotations

import argparse
import functools
import gzip
import hashlib
import json
import resource
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from machine import ROOT, data_folder, describe

import dpgist as dg
from dpgist.artefact import refuse_bad_output
from dpgist.evaluate.cnn import cnn_accuracy
from dpgist.evaluate.frechet import frechet_distance
from dpgist.evaluate.image_classifiers import TWELVE, Effort, guess
from dpgist.evaluate.inception import inception_statistics, load_inception
from dpgist.methods import METHODS
from dpgist.testing import NoNoise, rehearse

FOLDERS = {"mnist": "mnist", "fashion": "fashion_mnist", "cifar10": "cifar10"}
IMAGES, LABELS = "{}-images-idx3-ubyte.gz", "{}-labels-idx1-ubyte.gz"
ROWS_ABOUT = {"mnist": 60_000, "fashion": 60_000, "cifar10": 50_000}
HELD_OUT = 10_000
VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "fine-pixels": {"sum_order": 16, "sum_scale": 0.07},
    "narrow": {"product_order": 8, "product_scale": 0.4, "directions": 300},
    "wide": {"product_order": 4, "product_scale": 1.0, "directions": 800},
    "light-sum": {"sum_weight": 0.4},
    "fine-light": {"sum_order": 16, "sum_scale": 0.07, "sum_weight": 0.5, "product_scale": 0.5},
}
"""Settings of Hermite for images that were compared on held-out training images."""


def main() -> None:
    """Run one of the commands."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(required=True)
    release = commands.add_parser("release")
    release.set_defaults(run=run_release)
    release.add_argument("--data", choices=sorted(FOLDERS), required=True)
    release.add_argument("--epsilon", type=float, required=True)
    release.add_argument("--delta", type=float, default=1e-5)
    release.add_argument("--relation", default="replace_one")
    release.add_argument("--method", choices=sorted(METHODS), default="scattering")
    what = "of the method: JSON, or the name of a variant"
    release.add_argument("--settings", type=settings_of, default={}, help=what)
    release.add_argument("--held-out", action="store_true", help="test on training images")
    release.add_argument("--nonprivate", action="store_true", help="a rehearsal without noise")
    release.add_argument("--seed", type=int, default=0, help="of the public features")
    release.add_argument("--out", type=Path, required=True)
    train = commands.add_parser("train")
    train.set_defaults(run=run_train)
    train.add_argument("gist", type=Path)
    train.add_argument("--test", type=Path, required=True)
    train.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    train.add_argument("--generator", default="auto")
    train.add_argument("--samples", type=Path, help="folder to keep the synthetic images in")
    train.add_argument("--steps", type=int)
    train.add_argument("--batch", type=int)
    train.add_argument("--learning-rate", type=float)
    train.add_argument("--no-critic", action="store_true", help="for a gist of method pearl")
    train.add_argument("--rows", type=int, default=60_000, help="synthetic images per seed")
    train.add_argument("--epochs", type=int, default=5, help="of the CNN")
    train.add_argument("--device", default="auto")
    train.add_argument("--models", type=Path, help="an existing folder for papers.py --samples")
    train.add_argument("--commit", help="what is measured, where there is no git")
    train.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/images.json")
    fid = commands.add_parser("fid")
    fid.set_defaults(run=run_fid)
    fid.add_argument("samples", type=Path)
    fid.add_argument("--data", choices=sorted(FOLDERS), required=True)
    fid.add_argument("--test", type=Path, required=True)
    fid.add_argument("--inception", type=Path, required=True)
    fid.add_argument("--device", default="auto")
    fid.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/images.json")
    redraw = commands.add_parser("redraw")
    redraw.set_defaults(run=run_redraw)
    redraw.add_argument("models", type=Path, help="what train --models wrote")
    redraw.add_argument("samples", type=Path)
    redraw.add_argument("--runs", type=Path, default=ROOT / "benchmarks/results/images.json")
    twelve = commands.add_parser("twelve")
    twelve.set_defaults(run=run_twelve)
    twelve.add_argument("samples", type=Path)
    twelve.add_argument("--data", choices=sorted(FOLDERS), required=True)
    twelve.add_argument("--test", type=Path, required=True)
    twelve.add_argument("--seeds", type=int, nargs="+", default=[0])
    twelve.add_argument("--runs", type=Path, default=ROOT / "benchmarks/results/images.json")
    twelve.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/images_twelve.json")
    grid = commands.add_parser("grid")
    grid.set_defaults(run=run_grid)
    grid.add_argument("samples", type=Path, nargs="+")
    grid.add_argument("--runs", type=Path, default=ROOT / "benchmarks/results/images.json")
    grid.add_argument("--out", type=Path, required=True)
    laptop = commands.add_parser("laptop")
    laptop.set_defaults(run=run_laptop)
    laptop.add_argument("--data", choices=sorted(FOLDERS), required=True)
    laptop.add_argument("--epsilon", type=float, required=True)
    laptop.add_argument("--delta", type=float, default=1e-5)
    laptop.add_argument("--seed", type=int, default=0, help="of the CNN")
    laptop.add_argument("--folder", type=Path, required=True, help="what synthesize will write")
    laptop.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/images_laptop.json")
    real = commands.add_parser("real")
    real.set_defaults(run=run_real)
    real.add_argument("--data", choices=sorted(FOLDERS), required=True)
    real.add_argument("--seed", type=int, default=0, help="of the CNN")
    real.add_argument("--device", default="auto")
    real.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/images_real.json")
    options = parser.parse_args()
    options.run(options)


def run_release(options: argparse.Namespace) -> None:
    """Release the training images once; copy the test images into a small file."""
    refuse_bad_output(options.out)
    data, (x, y) = released_images(options), tested_images(options)
    height, width, channels = (*x.shape[1:], 1)[:3]
    whole = ROWS_ABOUT[options.data]
    schema = dg.Schema(
        name=options.data,
        columns=(
            dg.ImageColumn(name="image", height=height, width=width, channels=channels),
            dg.CategoryColumn(name="label", values=tuple("0123456789")),
        ),
        label="label",
        rows_about=whole - HELD_OUT if options.held_out else whole,
    )
    budget = dg.Budget(epsilon=options.epsilon, delta=options.delta, relation=options.relation)
    method = METHODS[options.method](**options.settings)
    ledger = dg.Ledger.in_memory(name=schema.name, budget=budget, max_rows_per_person=1)
    started = time.perf_counter()
    if options.nonprivate:
        public = {"public": "published images", "noise": NoNoise()}
        gist = rehearse(data, schema, method, budget, **public, seed=options.seed)
    else:
        gist = dg.release(data, schema, method, budget, ledger=ledger, seed=options.seed)
    print(f"private pass: {time.perf_counter() - started:.1f} s", flush=True)
    gist.save(options.out)
    held_out = "-held-out" if options.held_out else ""
    test = options.out.with_name(f"{options.data}{held_out}-test.npz")
    np.savez_compressed(test, x=x, y=y)
    for path in (options.out, test):
        print(f"written: {path}, {path.stat().st_size:,} bytes")


def settings_of(text: str) -> dict[str, Any]:
    """A method's settings, by a variant's name or as they are."""
    return VARIANTS[text] if text in VARIANTS else dict(json.loads(text))


def released_images(options: argparse.Namespace) -> Any:
    """What is released: the file of training images, or the first of them."""
    if not options.held_out:
        return image_file(options.data, "train")
    x, y = real_images(options.data, "train")
    return {"x": x[:-HELD_OUT], "y": y[:-HELD_OUT]}


def tested_images(options: argparse.Namespace) -> tuple[np.ndarray, np.ndarray]:
    """What synthetic images will be tested on."""
    if not options.held_out:
        return real_images(options.data, "t10k")
    x, y = real_images(options.data, "train")
    return x[-HELD_OUT:], y[-HELD_OUT:]


def image_file(name: str, part: str) -> Path:
    """Where the images of a part ("train" or "t10k") of a data set lie."""
    folder = data_folder() / FOLDERS[name]
    return folder / (f"{part}.npz" if name == "cifar10" else IMAGES.format(part))


def real_images(name: str, part: str) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels of a part of a data set."""
    file = image_file(name, part)
    if file.suffix == ".npz":
        with np.load(file) as arrays:
            return arrays["x"], arrays["y"]
    x = idx(file, head=16).reshape(-1, 28, 28)
    return x, idx(file.with_name(LABELS.format(part)), head=8)


def idx(path: Path, *, head: int) -> np.ndarray:
    """The bytes of an idx file after its head."""
    return np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8, offset=head)


def run_train(options: argparse.Namespace) -> None:
    """Train, sample and score every seed that the result file does not hold yet."""
    gist = dg.read_gist(options.gist)
    device, test = device_of(options), test_images(options)
    known = identity(options, gist)
    for seed in options.seeds:
        if any(run["seed"] == seed for run in matching(options.out, known)):
            print(f"seed {seed}: in {options.out} already", flush=True)
            continue
        result, synthetic = run_seed(gist, test, options, seed=seed, device=device)
        if options.samples is not None:
            options.samples.mkdir(parents=True, exist_ok=True)
            np.savez(options.samples / samples_name({**known, "seed": seed}), **synthetic)
        append(options.out, {**known, "seed": seed, **result, "machine": machine(options)})
    runs = matching(options.out, known)
    scores = np.array([run["cnn_accuracy"] for run in runs])
    spread = scores.std(ddof=1) if len(scores) > 1 else 0.0
    print(
        f"{known['data']}, epsilon {known['epsilon']:g}, {known['relation']}:"
        f" CNN {100 * scores.mean():.2f} % +- {100 * spread:.2f} over {len(runs)} seeds"
    )


def run_fid(options: argparse.Namespace) -> None:
    """Score the kept images of every run that has no distance yet."""
    device, (test, _) = device_of(options), test_images(options)
    inception = load_inception(options.inception, device=device)
    real = inception_statistics(test, inception)
    runs = json.loads(options.out.read_text())["runs"]
    for run in runs:
        kept = options.samples / samples_name(run)
        if run["data"] != options.data or "fid" in run or not kept.exists():
            continue
        with np.load(kept) as arrays:
            synthetic = inception_statistics(arrays["x"], inception)
        run["fid"] = frechet_distance(real.moments, synthetic.moments)
        print(f"{kept.name}: FID {run['fid']:.2f}", flush=True)
        options.out.write_text(json.dumps({"runs": runs}, indent=1) + "\n")


def run_redraw(options: argparse.Namespace) -> None:
    """Draw the images of every run whose model was kept."""
    options.samples.mkdir(parents=True, exist_ok=True)
    models = [dg.read_model(path) for path in sorted(options.models.glob("*.model"))]
    for run in json.loads(options.runs.read_text())["runs"]:
        for model in models:
            if model.losses[-1] == run["last_loss"]:  # unlike names, it tells runs apart
                images = model.sample(run["rows"], seed=run["seed"], kind="arrays")
                np.savez(options.samples / samples_name(run), **images)
                print(f"drawn: {samples_name(run)}", flush=True)


def run_twelve(options: argparse.Namespace) -> None:
    """Score the kept images of the runs asked for by the papers' 12 classifiers."""
    test = test_images(options)
    for run in json.loads(options.runs.read_text())["runs"]:
        kept = options.samples / samples_name(run)
        if run["data"] != options.data or run["seed"] not in options.seeds or not kept.exists():
            continue
        with np.load(kept) as arrays:
            train = arrays["x"], arrays["y"].astype(np.int64)
        with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
            ask = functools.partial(classifier_accuracy, train=train, test=test, seed=run["seed"])
            scores = dict(zip(TWELVE, pool.map(ask, TWELVE), strict=True))
        mean = float(np.mean(list(scores.values())))
        names = ("data", "epsilon", "delta", "relation", "method", "gist", "seed", "machine")
        append(options.out, {**{name: run[name] for name in names}, "mean": mean, "scores": scores})
        print(f"{kept.name}: mean of 12 {mean:.4f}", flush=True)


def run_laptop(options: argparse.Namespace) -> None:
    """Time the command as a user gives it, then score what it wrote."""
    schema = ROOT / "benchmarks" / "schemas" / f"{FOLDERS[options.data]}.toml"
    images = image_file(options.data, "train")
    words = ["synthesize", images, "--schema", schema, "--device", "cpu"]
    words += ["--epsilon", options.epsilon, "--delta", options.delta, "--out", options.folder]
    call = [sys.executable, "-c", "from dpgist.cli import main; main()", *map(str, words)]
    started = time.perf_counter()
    subprocess.run(call, check=True)
    seconds = time.perf_counter() - started
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    test = real_images(options.data, "t10k")
    with np.load(options.folder / "synthetic.npz") as arrays:
        train = arrays["x"], arrays["y"].astype(np.int64)
    accuracy = cnn_accuracy(train, test, epochs=5, seed=options.seed, device="cpu")
    names = ("data", "epsilon", "delta", "seed")
    run = {name: getattr(options, name) for name in names} | {"relation": "add_remove"}
    run |= {"wall_s": seconds, "cpu_s": spent.ru_utime + spent.ru_stime, "peak_kb": spent.ru_maxrss}
    append(options.out, {**run, "cnn_accuracy": accuracy, "machine": describe()})
    print(f"{seconds / 60:.1f} minutes, CNN {100 * accuracy:.2f} % on real test images")


def run_real(options: argparse.Namespace) -> None:
    """Train the CNN on the real training images."""
    train, test = (real_images(options.data, part) for part in ("train", "t10k"))
    accuracy = cnn_accuracy(train, test, epochs=5, seed=options.seed, device=device_of(options))
    run = {"data": options.data, "seed": options.seed, "rows": len(train[0])}
    append(options.out, {**run, "cnn_accuracy": accuracy, "machine": describe()})
    print(f"{options.data}: CNN {100 * accuracy:.2f} % trained on {len(train[0]):,} real images")


def run_grid(options: argparse.Namespace) -> None:
    """Draw eight kept images of every class, a panel for each run, under the run's own terms."""
    from matplotlib.figure import Figure

    runs = {samples_name(run): run for run in json.loads(options.runs.read_text())["runs"]}
    figure = Figure(figsize=(3 * len(options.samples), 2.7))
    for number, path in enumerate(options.samples, start=1):
        with np.load(path) as arrays:
            x, y = arrays["x"], arrays["y"]
        places = np.concatenate([np.flatnonzero(y == code)[:8] for code in range(10)])
        axis, run = figure.add_subplot(1, len(options.samples), number), runs[path.name]
        height, width, colours = (*x.shape[1:], 1)[:3]
        tiles = x[places].reshape(10, 8, height, width, colours).transpose(1, 2, 0, 3, 4)
        axis.imshow(tiles.reshape(8 * height, 10 * width, colours), cmap="gray_r")
        axis.set_title(f"ε = {run['epsilon']:g}, {run['relation']}", fontsize=9)
        axis.axis("off")
    figure.tight_layout()
    figure.savefig(options.out, dpi=90)


def classifier_accuracy(name: str, *, train: Any, test: Any, seed: int) -> float:
    """Accuracy on real images of one classifier trained on synthetic ones."""
    found = guess(name, train, test[0], n_classes=10, seed=seed, effort=Effort())
    if found.codes is None:
        raise RuntimeError(f"{name}: {found.why}")
    return float(np.mean(found.codes == test[1]))


def samples_name(run: dict[str, Any]) -> str:
    """Under which name the images of a run are kept."""
    return f"{run['gist'][:16]}-{run['seed']}.npz"


def device_of(options: argparse.Namespace) -> str:
    """Where to compute."""
    if options.device != "auto":
        return str(options.device)
    return "cuda" if torch.cuda.is_available() else "cpu"


def test_images(options: argparse.Namespace) -> tuple[np.ndarray, np.ndarray]:
    """Real images and labels that no generator saw."""
    with np.load(options.test) as arrays:
        return arrays["x"], arrays["y"]


def run_seed(
    gist: dg.Gist,
    test: tuple[np.ndarray, np.ndarray],
    options: argparse.Namespace,
    *,
    seed: int,
    device: str,
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """One generator, its images and one CNN; seconds are wall time since the last stop."""
    clock = [time.perf_counter()]

    def progress(step: int, steps: int, loss: float) -> None:
        if step % 200 == 0 or step == steps:
            seconds = time.perf_counter() - clock[0]
            print(f"seed {seed}: step {step}/{steps}, loss {loss:.3e}, {seconds:.0f} s", flush=True)

    kept = options.out.with_name(f"{options.out.stem}.{options.gist.stem}.{seed}.checkpoint")
    kept.parent.mkdir(parents=True, exist_ok=True)
    model = dg.train(
        gist,
        training(options),
        seed=seed,
        device=device,
        progress=progress,
        checkpoint=kept,
        rehearsal=gist.rehearsal,
    )
    clock.append(time.perf_counter())
    if options.models:
        model.save(options.models / model_name(gist, model, seed), force=True)
    model.generator.to(device)
    synthetic = model.sample(options.rows, seed=seed, kind="arrays")
    clock.append(time.perf_counter())
    train = synthetic["x"], synthetic["y"]
    accuracy = cnn_accuracy(train, test, epochs=options.epochs, seed=seed, device=device)
    clock.append(time.perf_counter())
    print(f"seed {seed}: CNN {100 * accuracy:.2f} % on real test images", flush=True)
    names = ("train_s", "sample_s", "classify_s")
    seconds = dict(zip(names, np.diff(clock).round(2).tolist(), strict=True))
    resolved = {name: value for name, value in model.training.items() if value is not None}
    result = {"cnn_accuracy": accuracy, "last_loss": model.losses[-1], "used": resolved, **seconds}
    return result, synthetic


def model_name(gist: dg.Gist, model: dg.Model, seed: int) -> str:
    """Under which name ``papers.py --samples`` looks for a model."""
    name = FOLDERS[gist.schema.name]
    column = "nonprivate" if gist.rehearsal else f"{gist.released.budget.epsilon:g}"
    if gist.method == dg.Pearl.name:
        return f"pearl-{name}.{column}.{'on' if model.training['critic'] else 'off'}.{seed}.model"
    return f"{name}.{column}.{seed}.model"


def training(options: argparse.Namespace) -> dg.Training:
    """The settings that the command line asks for."""
    return dg.Training(
        steps=options.steps,
        batch=options.batch,
        learning_rate=options.learning_rate,
        generator=options.generator,
        critic=False if options.no_critic else None,
    )


def identity(options: argparse.Namespace, gist: dg.Gist) -> dict[str, Any]:
    """What makes two runs comparable: all but the seed."""
    budget = gist.released.budget
    return {
        "data": gist.schema.name,
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "relation": str(budget.relation),
        "method": gist.method,
        "settings": gist.settings,
        "gist": hashlib.sha256(options.gist.read_bytes()).hexdigest(),
        "training": vars(training(options)),
        "rows": options.rows,
        "epochs": options.epochs,
        **({"rehearsal": "not private, no noise"} if gist.rehearsal else {}),
    }


def matching(path: Path, known: dict[str, Any]) -> list[dict[str, Any]]:
    """The runs on file that differ in the seed alone."""
    runs = json.loads(path.read_text())["runs"] if path.exists() else []
    plain = json.loads(json.dumps(known))
    return [run for run in runs if all(run.get(name) == value for name, value in plain.items())]


def append(path: Path, run: dict[str, Any]) -> None:
    """Add one run to the file; none is ever dropped."""
    runs = json.loads(path.read_text())["runs"] if path.exists() else []
    path.write_text(json.dumps({"runs": [*runs, run]}, indent=1) + "\n")


def machine(options: argparse.Namespace) -> dict[str, Any]:
    """Machine, versions and commit."""
    found = describe()
    return {**found, "commit": options.commit or found["commit"]}


if __name__ == "__main__":
    main()
