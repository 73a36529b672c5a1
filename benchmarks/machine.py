"""What a result was measured on, and where results go."""

import json
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import torch

import dpgist as dg

ROOT = Path(__file__).parents[1]


def data_folder() -> Path:
    """Where the real data sets lie: $DPGIST_DATA, else ../shared/data beside the project."""
    return Path(os.environ.get("DPGIST_DATA", ROOT.parent / "shared" / "data"))


def describe() -> dict[str, Any]:
    """Machine, versions and commit; $DPGIST_COMMIT names it where a copy has no repository."""
    git = ["git", "-C", str(ROOT)]
    commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True).stdout
    dirty = subprocess.run([*git, "status", "--porcelain"], capture_output=True, text=True).stdout
    return {
        "commit": (commit.strip() or os.environ.get("DPGIST_COMMIT", ""))
        + ("+changes" if dirty.strip() else ""),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "cuda": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "torch": torch.__version__,
        "dpgist": dg.__version__,
    }


def write_result(name: str, result: dict[str, Any]) -> None:
    """Save a result beside the script that made it."""
    path = ROOT / "benchmarks" / "results" / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"machine": describe(), **result}, indent=1) + "\n")
    print(f"written: {path.relative_to(ROOT)}")
