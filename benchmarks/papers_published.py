"""Numbers that the papers print: DP-MERF (Harder, Adamczewski and Park 2021), DP-HP, PEARL.

Tables: Table 1 and, per classifier, Tables 6 and 8 of the supplement (averages of five runs).
Images: Tables 9 and 10. Marginals: supplement M.2. There is no epsilon 0.2 for tables.
"""

ROC, PRC, F1, ACCURACY = "roc_hard", "pr_hard", "f1_weighted", "accuracy"

TABLES: dict[str, dict[str, dict[str, float]]] = {
    "adult": {
        "real": {ROC: 0.730, PRC: 0.639},
        "1": {ROC: 0.650, PRC: 0.564},
        "nonprivate": {ROC: 0.653, PRC: 0.570},
    },
    "census": {
        "real": {ROC: 0.747, PRC: 0.415},
        "1": {ROC: 0.686, PRC: 0.358},
        "nonprivate": {ROC: 0.692, PRC: 0.369},
    },
    "cervical": {
        "real": {ROC: 0.786, PRC: 0.493},
        "1": {ROC: 0.545, PRC: 0.184},
        "nonprivate": {ROC: 0.896, PRC: 0.737},
    },
    "credit": {
        "real": {ROC: 0.923, PRC: 0.874},
        "1": {ROC: 0.772, PRC: 0.637},
        "nonprivate": {ROC: 0.898, PRC: 0.774},
    },
    "epileptic": {
        "real": {ROC: 0.797, PRC: 0.617},
        "1": {ROC: 0.611, PRC: 0.340},
        "nonprivate": {ROC: 0.616, PRC: 0.335},
    },
    "isolet": {
        "real": {ROC: 0.893, PRC: 0.728},
        "1": {ROC: 0.547, PRC: 0.404},
        "nonprivate": {ROC: 0.733, PRC: 0.424},
    },
    "covertype": {"real": {F1: 0.643}, "1": {F1: 0.467}, "nonprivate": {F1: 0.513}},
    "intrusion": {"real": {F1: 0.959}, "1": {F1: 0.850}, "nonprivate": {F1: 0.856}},
}

_IMAGE_COLUMNS = ("real", "nonprivate", "1", "0.2")
_MNIST = {
    "LR": (0.930, 0.772, 0.769, 0.772),
    "RF": (0.969, 0.714, 0.685, 0.702),
    "GNB": (0.560, 0.527, 0.545, 0.539),
    "BNB": (0.840, 0.746, 0.750, 0.780),
    "SVM": (0.920, 0.756, 0.746, 0.726),
    "DT": (0.880, 0.443, 0.456, 0.346),
    "LDA": (0.879, 0.789, 0.793, 0.753),
    "Ada": (0.729, 0.441, 0.456, 0.362),
    "MLP": (0.978, 0.807, 0.807, 0.768),
    "Bag": (0.928, 0.624, 0.602, 0.508),
    "GBM": (0.909, 0.678, 0.659, 0.552),
    "XGB": (0.912, 0.525, 0.555, 0.509),
}
_FASHION = {
    "LR": (0.844, 0.725, 0.728, 0.714),
    "RF": (0.875, 0.657, 0.684, 0.553),
    "GNB": (0.585, 0.598, 0.575, 0.467),
    "BNB": (0.648, 0.602, 0.604, 0.629),
    "SVM": (0.839, 0.685, 0.684, 0.697),
    "DT": (0.790, 0.433, 0.462, 0.352),
    "LDA": (0.799, 0.735, 0.733, 0.701),
    "Ada": (0.561, 0.291, 0.359, 0.258),
    "MLP": (0.879, 0.739, 0.738, 0.696),
    "Bag": (0.841, 0.576, 0.593, 0.372),
    "GBM": (0.834, 0.626, 0.624, 0.429),
    "XGB": (0.826, 0.596, 0.610, 0.445),
}


def _by_column(rows: dict[str, tuple[float, ...]]) -> dict[str, dict[str, float]]:
    return {
        column: {name: values[place] for name, values in rows.items()}
        for place, column in enumerate(_IMAGE_COLUMNS)
    }


IMAGES = {"mnist": _by_column(_MNIST), "fashion_mnist": _by_column(_FASHION)}
"""Accuracy by column and classifier; the mean of the 12 is what Table 3 prints."""

_NAMES = ("LR", "GNB", "BNB", "SVM", "DT", "LDA", "Ada", "Bag", "RF", "GBM", "MLP", "XGB")


def _named(*values: float) -> dict[str, float]:
    return dict(zip(_NAMES, values, strict=True))


CLASSIFIERS: dict[str, dict[str, dict[str, float]]] = {
    "credit": {
        "1": _named(
            *(0.796, 0.729, 0.752, 0.742, 0.775, 0.725),
            *(0.787, 0.811, 0.786, 0.807, 0.747, 0.812),
        ),
        "nonprivate": _named(
            *(0.919, 0.898, 0.879, 0.876, 0.901, 0.838),
            *(0.912, 0.909, 0.911, 0.917, 0.905, 0.915),
        ),
    },
    "intrusion": {
        "1": _named(
            *(0.928, 0.792, 0.508, 0.917, 0.907, 0.925),
            *(0.592, 0.922, 0.923, 0.926, 0.941, 0.921),
        ),
        "nonprivate": _named(
            *(0.891, 0.845, 0.454, 0.890, 0.911, 0.859),
            *(0.899, 0.926, 0.904, 0.901, 0.898, 0.891),
        ),
    },
}
"""The main metric (ROC of hard labels, weighted F1) per classifier, where it is printed."""

_EPSILONS = ("1", "0.3", "0.1")


def _at(*values: float) -> dict[str, float]:
    return dict(zip(_EPSILONS, values, strict=True))


MARGINALS: dict[str, dict[str, dict[int, dict[str, float]]]] = {
    "adult": {
        "D": {3: _at(0.348, 0.405, 0.480), 4: _at(0.468, 0.508, 0.590)},
        "D*": {3: _at(0.235, 0.287, 0.352), 4: _at(0.301, 0.363, 0.453)},
    },
    "census": {
        "D": {2: _at(0.172, 0.190, 0.222), 3: _at(0.291, 0.302, 0.337)},
        "D*": {2: _at(0.139, 0.140, 0.176), 3: _at(0.228, 0.234, 0.269)},
    },
}
"""Mean total variation, by the alpha that the paper prints; its code takes one column more."""

HERMITE_TABLES: dict[str, dict[str, float]] = {
    "adult": {ROC: 0.688, PRC: 0.632},
    "census": {ROC: 0.699, PRC: 0.328},
    "cervical": {ROC: 0.616, PRC: 0.312},
    "credit": {ROC: 0.786, PRC: 0.744},
    "epileptic": {ROC: 0.609, PRC: 0.554},
    "isolet": {ROC: 0.572, PRC: 0.498},
    "covertype": {F1: 0.537},
    "intrusion": {F1: 0.890},
}
"""DP-HP (Vinaroz et al. 2022), Table 2, epsilon 1: the best of up to 14 settings on test labels."""

HERMITE_MARGINALS: dict[str, dict[int, dict[str, float]]] = {
    "adult": {3: {"0.3": 0.332, "0.1": 0.377}, 4: {"0.3": 0.418, "0.1": 0.467}},
    "census": {2: {"0.3": 0.141, "0.1": 0.155}, 3: {"0.3": 0.211, "0.1": 0.232}},
}
"""DP-HP, Table 1, by the alpha that the paper prints."""

_HERMITE_ORDER = ("LR", "RF", "GNB", "BNB", "SVM", "DT", "LDA", "Ada", "MLP", "Bag", "GBM", "XGB")
_HERMITE_MNIST = (
    *(0.811, 0.815, 0.586, 0.815, 0.771, 0.560),
    *(0.815, 0.674, 0.806, 0.666, 0.727, 0.798),
)
_HERMITE_FASHION = (
    *(0.722, 0.730, 0.602, 0.637, 0.694, 0.519),
    *(0.723, 0.567, 0.716, 0.633, 0.684, 0.701),
)
HERMITE_IMAGES = {
    "mnist": dict(zip(_HERMITE_ORDER, _HERMITE_MNIST, strict=True)),
    "fashion_mnist": dict(zip(_HERMITE_ORDER, _HERMITE_FASHION, strict=True)),
}
"""DP-HP at epsilon 1, figures 3 and 6, from the files behind them."""


def _pearl(*values: float) -> dict[str, float]:
    return dict(zip((ROC, PRC, "range", "marginal_l1", "mmd"), values, strict=True))


PEARL_TABLES = {
    "adult": {
        "DP-MERF": _pearl(0.64, 0.54, 0.10, 1.37, 2e-3),
        "PEARL": _pearl(0.72, 0.62, 0.06, 0.71, 1e-7),
    },
    "credit": {
        "DP-MERF": _pearl(0.66, 0.26, 0.049, 0.95, 2e-5),
        "PEARL": _pearl(0.84, 0.68, 0.026, 0.72, 1e-8),
    },
}
"""PEARL (Liew, Takahashi and Ueno 2022), Table 3, at epsilon 1."""

PEARL_IMAGES = {
    "mnist": {
        "DP-MERF": (49.9, 148),
        "PEARL without critic": (3.79, 77.8),
        "PEARL": (3.52, 70.5),
    },
    "fashion_mnist": {
        "DP-MERF": (37.0, 1220),
        "PEARL without critic": (1.99, 24.0),
        "PEARL": (1.92, 26.9),
    },
}
"""The same paper, Table 1: FID and KID x 1000 of LeNet features."""
