"""Scores of images can tell good from bad, and say so where they cannot be computed."""

import sys
import warnings

import numpy as np
import pytest
import torch
from tests.made_gists import STRIPES, stripe_images

import dpgist as dg
from dpgist.errors import DataError
from dpgist.evaluate import inception as inception_module
from dpgist.evaluate.cnn import cnn_accuracy, cnn_guesses
from dpgist.evaluate.effective_size import SizeCurve, balanced_order, size_curve
from dpgist.evaluate.image_classifiers import ALL, SLOW, TWELVE, Effort, guess
from dpgist.evaluate.images import score_images
from dpgist.evaluate.inception import Inception, inception_statistics, load_inception
from dpgist.evaluate.lenet import lenet_input
from dpgist.evaluate.scores import Evaluation
from dpgist.plots import size_curves_figure

QUICK = ("LR", "GNB", "RF")
SHARES = (0.2, 0.4, 0.4)


def rng(seed=0):
    return np.random.default_rng(seed)


def pictures(n, seed=0, side=8, hard=False):
    """Three kinds of picture: a bright line at the top, in the middle or at the bottom."""
    noise, bright = (220, (5, 35)) if hard else (60, (60, 180))
    draw = rng(seed)
    labels = np.sort(draw.choice(3, size=n, p=SHARES))
    x = draw.integers(0, noise, (n, side, side))
    for i, label in enumerate(labels):
        x[i, 1 + 2 * label : 3 + 2 * label] += draw.integers(*bright)
    order = draw.permutation(n)
    return np.minimum(x[order], 255).astype(np.uint8), labels[order]


TRAIN, TEST = pictures(240), pictures(120, seed=1)
FEW, FEW_TEST = pictures(60), pictures(50, seed=1)  # 299 x 299 pixels take their time


def evaluated(train_sets, test=TEST, models=QUICK, seed=0, **options):
    return Evaluation(
        scores=score_images(train_sets, test, rng=rng(seed), models=models, **options)
    )


@pytest.fixture
def network_file(tmp_path):
    """A tiny stand-in for Inception: the mean brightness of each of 4x4 patches, 48 numbers."""
    path = tmp_path / "network.pt"
    layers = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(4), torch.nn.Flatten())
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of TorchScript, still FID's form
        torch.jit.trace(layers, torch.zeros(2, 3, 299, 299)).half().save(str(path))
    return path


def test_real_images_beat_shuffled_labels_which_beat_a_constant():
    shuffled = TRAIN[0], rng(5).permutation(TRAIN[1])
    constant = np.full_like(TRAIN[0], 7), np.zeros_like(TRAIN[1])
    found = evaluated({"real": TRAIN, "synthetic": shuffled, "noise": constant})
    assert found.mean("accuracy", "real") > 0.95
    assert 0.28 < found.mean("accuracy", "synthetic") < 0.55
    assert found.mean("accuracy", "noise") == pytest.approx(np.mean(TEST[1] == 0))
    assert found.mean("accuracy", "noise") < 0.25


def test_all_thirteen_classifiers_learn_and_the_shortened_ones_are_marked():
    found = evaluated({"real": TRAIN}, models=ALL, slow_rows=100)
    assert found.models == tuple(f"{m} (100 rows)" if m in SLOW else m for m in (*TWELVE, "CNN"))
    values = {m: found.find("accuracy", source="real", model=m).value for m in found.models}
    assert all(value > 0.6 for value in values.values()), values
    assert found.mean("accuracy", "real") == pytest.approx(np.mean(list(values.values())))
    whole = evaluated({"real": TRAIN}, models=("Bag",), slow_rows=None)
    assert whole.models == ("Bag",)


def test_a_classifier_that_stopped_early_says_so():
    found = guess("SVM", TRAIN, TEST[0], n_classes=3, seed=0, effort=Effort(svm_iterations=1))
    assert found.codes is not None
    assert "converged" in found.why


def test_classes_average_to_the_whole_and_the_worst_one_is_found():
    labels = np.where(TRAIN[1] == 2, 1, TRAIN[1])  # class 2 is never taught
    found = evaluated({"synthetic": (TRAIN[0], labels)}, models=("GNB", "RF"))
    worst = found.worst_group("accuracy")
    assert (worst.group, worst.value) == ("class=2", 0.0)
    for model in (*found.models, None):
        whole = found.find("accuracy", model=model)
        parts = [found.find("accuracy", model=model, group=f"class={c}").value for c in range(3)]
        counts = np.bincount(TEST[1])
        assert whole.value == pytest.approx(np.average(parts, weights=counts))
        assert 0 <= whole.low <= whole.value <= whole.high <= 1
    assert whole.high - whole.low > 0.05


def test_the_interval_holds_the_score_of_other_test_images():
    train = pictures(300, hard=True)
    few = evaluated({"synthetic": train}, pictures(150, seed=4, hard=True), models=("GNB",))
    many = evaluated({"synthetic": train}, pictures(9_000, seed=3, hard=True), models=("GNB",))
    score, truth = few.find("accuracy", model="GNB"), many.mean("accuracy")
    assert 0 < score.low < truth < score.high < 1
    assert score.high - score.low == pytest.approx(
        2 * 1.96 * (score.value * (1 - score.value) / 150) ** 0.5
    )


def test_a_score_does_not_depend_on_the_other_models_nor_on_how_labels_are_written():
    alone = evaluated({"synthetic": TRAIN}, models=("RF",))
    names = np.array(["bee", "ant", "cat"])
    told = evaluated({"synthetic": TRAIN}, models=("GNB", "RF"))
    named = evaluated({"synthetic": (TRAIN[0], names[TRAIN[1]])}, (TEST[0], names[TEST[1]]))
    assert alone.find("accuracy", model="RF") == told.find("accuracy", model="RF")
    assert named.find("accuracy", model="GNB") == told.find("accuracy", model="GNB")
    assert named.find("accuracy", model="GNB", group="class=ant").value > 0.9


def test_one_class_or_no_rows_are_scored_as_far_as_possible():
    one = TRAIN[0][TRAIN[1] == 1], TRAIN[1][TRAIN[1] == 1]
    none = TRAIN[0][:0], TRAIN[1][:0]
    found = evaluated({"synthetic": one, "real": none}, models=("LDA", "CNN"), lenet=True)
    assert found.mean("accuracy") == pytest.approx(np.mean(TEST[1] == 1))
    for model in ("LDA", None):
        assert "one class" in found.find("accuracy", model=model).why
    assert found.find("accuracy", model="CNN", source="real").why == "no rows to train on"
    assert found.find("lenet_fid", source="real").value is None
    assert found.find("lenet_fid").value > 0
    empty = evaluated({"synthetic": TRAIN}, (TEST[0][:0], TEST[1][:0]), lenet=True)
    assert all(score.value is None and score.why for score in empty.scores)


def test_what_cannot_be_fitted_on_some_images_is_left_out_of_every_mean_by_name():
    flat = np.zeros_like(TRAIN[0]), TRAIN[1]
    found = evaluated({"synthetic": flat, "real": TRAIN}, models=("LDA", "DT"))
    assert found.find("accuracy", model="LDA").value is None
    assert found.find("accuracy", model="LDA", source="real").value > 0.9
    for source in ("synthetic", "real"):
        mean = found.find("accuracy", source=source)
        assert "without LDA" in mean.why
        assert mean.value == found.find("accuracy", model="DT", source=source).value


def test_without_xgboost_the_other_classifiers_are_scored(monkeypatch):
    monkeypatch.setitem(sys.modules, "xgboost", None)
    found = evaluated({"synthetic": TRAIN}, models=("XGB", "GNB"))
    assert "pip install 'dpgist[evaluate]'" in found.find("accuracy", model="XGB").why
    assert found.mean("accuracy") == found.find("accuracy", model="GNB").value


def test_images_of_another_size_and_unknown_classifiers_are_refused():
    with pytest.raises(DataError, match="8 x 8 and test images 9 x 9"):
        evaluated({"synthetic": TRAIN}, pictures(20, side=9))
    with pytest.raises(DataError, match="uint8"):
        evaluated({"synthetic": (TRAIN[0] / 255, TRAIN[1])})
    with pytest.raises(ValueError, match="unknown classifiers: KNN"):
        evaluated({"synthetic": TRAIN}, models=("KNN",))


def test_progress_counts_up_to_the_end(network_file):
    seen = []
    evaluated(
        {"synthetic": FEW, "real": FEW},
        FEW_TEST,
        models=("GNB", "DT"),
        lenet=True,
        inception=network_file,
        progress=lambda *step: seen.append(step),
    )
    done = [step[0] for step in seen]
    assert done == sorted(done)
    assert {step[1] for step in seen} == {8}
    assert done[-1] == 8
    assert any("Inception, test: 100%" in step[2] for step in seen)


def test_the_cnn_repeats_itself_and_leaves_the_global_randomness_alone():
    before = torch.get_rng_state()
    first, again, other = (cnn_guesses(TRAIN, TEST[0], seed=s, epochs=1) for s in (0, 0, 1))
    assert torch.equal(before, torch.get_rng_state())
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    colour = np.repeat(TRAIN[0][..., None], 3, axis=3), np.repeat(TEST[0][..., None], 3, axis=3)
    assert cnn_accuracy((colour[0], TRAIN[1]), (colour[1], TEST[1]), seed=0, epochs=40) > 0.9


def test_fid_and_kid_are_near_zero_for_real_images_and_grow_as_they_are_changed(network_file):
    real, test = pictures(150), pictures(150, seed=1)
    brighter = (np.minimum(real[0] + 20.0, 255).astype(np.uint8), real[1])
    brightest = (np.minimum(real[0] + 60.0, 255).astype(np.uint8), real[1])
    sets = {"real": real, "synthetic": brighter, "noise": brightest}
    found = evaluated(sets, test, models=(), inception=network_file)
    for metric in ("fid", "kid"):
        values = [found.find(metric, source=source).value for source in sets]
        assert abs(values[0]) < values[1] / 5
        assert values[1] < values[2] / 2
        assert found.find(metric).why is None
    assert found.find("kid").low is None  # 150 images leave no room for differing subsets
    # Every patch is brighter by 20 of 255, on a scale twice as long.
    assert found.find("fid").value == pytest.approx(48 * (40 / 255) ** 2, rel=0.2)


def test_few_images_for_the_network_are_marked(network_file):
    work = {"models": (), "inception": network_file}
    found = evaluated({"synthetic": FEW}, FEW_TEST, inception_rows=20, **work)
    assert found.find("fid").why == "20 images against 20: the fewer, the higher"
    full = evaluated({"synthetic": FEW}, FEW_TEST, **work)
    assert full.find("fid").why == "60 images against 50: the fewer, the higher"
    with pytest.raises(ValueError, match="inception_rows"):
        evaluated({"synthetic": FEW}, FEW_TEST, inception_rows=1, **work)


def test_a_missing_or_broken_network_file_is_explained_and_the_rest_computed(tmp_path):
    broken = tmp_path / "broken.pt"
    broken.write_bytes(b"no network")
    for path, word in ((tmp_path / "absent.pt", "no Inception file"), (broken, "no TorchScript")):
        found = evaluated({"synthetic": TRAIN}, inception=path)
        assert found.find("fid").value is None
        assert word in found.find("kid").why
        assert str(tmp_path) not in found.find("kid").why
        assert found.mean("accuracy") > 0.9


class Wrong(torch.nn.Module):
    """Takes (n, 5); images of 299 x 299 are none."""

    def forward(self, x):
        return x.flatten(1) @ torch.ones(5, 3)


class NotANumber(torch.nn.Module):
    def forward(self, x):
        return x[:, :, 0, 0] * float("nan")


class DarkOnly(torch.nn.Module):
    """Has features of black images alone."""

    def forward(self, x):
        return torch.log(-x[:, 0, :3, 0])


def script_of(network, path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.script(network).save(str(path))
    return path


@pytest.mark.parametrize("network", [Wrong(), NotANumber()])
def test_a_network_that_makes_no_features_is_refused_before_the_look(network, tmp_path):
    path = script_of(network, tmp_path / "other.pt")
    ledger = dg.Ledger.create(
        tmp_path / "l.ledger", name="stripes", epsilon=1, delta=1e-6, relation="add_remove"
    )
    before = len(ledger.entries())
    with pytest.raises(DataError, match=r"the network in other\.pt makes no features"):
        dg.evaluate(stripe_images(9), stripe_images(9), STRIPES, inception=path, ledger=ledger)
    assert len(ledger.entries()) == before
    found = evaluated({"synthetic": FEW}, FEW_TEST, models=("GNB",), inception=path)
    assert "makes no features" in found.find("fid").why
    assert found.mean("accuracy") > 0.9


def test_a_network_that_fails_on_some_images_costs_their_distances_alone(tmp_path):
    path, dark = script_of(DarkOnly(), tmp_path / "dark.pt"), (FEW[0] * 0, FEW[1])
    sets = {"synthetic": (FEW[0] * 0 + 255, FEW[1]), "real": dark}
    found = evaluated(sets, (dark[0][:50], FEW_TEST[1]), models=("GNB",), inception=path)
    for metric in ("fid", "kid"):
        score = found.find(metric)
        assert (score.value, score.why) == (None, "the Inception network failed on these images")
        assert found.find(metric, source="real").value == pytest.approx(0.0)


def refuses(_):
    raise AssertionError("the network was run")


def test_cached_statistics_are_used_without_running_the_network(network_file, tmp_path):
    cache = tmp_path / "cache"
    inception = load_inception(network_file)
    first = inception_statistics(FEW_TEST[0], inception, cache=cache)
    mute = Inception(network=refuses, digest=inception.digest, device="cpu")
    again = inception_statistics(FEW_TEST[0], mute, cache=cache)
    assert np.array_equal(first.pool, again.pool)
    assert np.array_equal(first.moments.covariance, again.moments.covariance)
    assert len(list(cache.iterdir())) == 1


def test_other_images_another_network_or_a_damaged_cache_are_computed_anew(network_file, tmp_path):
    inception = load_inception(network_file)
    mute = Inception(network=refuses, digest=inception.digest, device="cpu")
    first = inception_statistics(FEW_TEST[0], inception, cache=tmp_path)
    changed = FEW_TEST[0].copy()
    changed[0, 0, 0] ^= 1
    other = Inception(network=refuses, digest="0" * 64, device="cpu")
    for images, network in ((changed, mute), (FEW_TEST[0], other), (FEW_TEST[0][:-1], mute)):
        with pytest.raises(AssertionError, match="was run"):
            inception_statistics(images, network, cache=tmp_path)
    file = next(tmp_path.glob("inception-*.npz"))
    file.write_bytes(file.read_bytes()[:1000])
    again = inception_statistics(FEW_TEST[0], inception, cache=tmp_path)
    assert np.array_equal(first.pool, again.pool)
    assert np.array_equal(inception_statistics(FEW_TEST[0], mute, cache=tmp_path).pool, first.pool)


def test_only_real_images_are_cached(network_file, tmp_path):
    cache = tmp_path / "cache"
    sets = {"real": FEW, "synthetic": pictures(50, seed=2)}
    evaluated(sets, FEW_TEST, models=(), inception=network_file, cache=cache)
    assert len(list(cache.iterdir())) == 2  # test and real


def test_the_network_gets_three_channels_of_299_pixels_from_minus_one_to_one():
    grey = np.zeros((2, 5, 4), np.uint8)
    grey[1] = 255
    shown = inception_module.network_input(grey, device="cpu")
    assert shown.shape == (2, 3, 299, 299)
    assert shown[0].unique().tolist() == [-1.0]
    assert shown[1].numpy() == pytest.approx(1.0)
    colour = np.stack([grey, grey * 0, grey], axis=3)
    channels = inception_module.network_input(colour, device="cpu")[1].mean(dim=(1, 2))
    assert channels.tolist() == pytest.approx([1, -1, 1])


def test_lenet_sees_32_by_32_and_tells_real_images_from_noise():
    framed = lenet_input(np.full((1, 28, 28), 255, np.uint8), device="cpu")
    assert framed.shape == (1, 1, 32, 32)
    assert framed.sum() == 28 * 28
    assert framed[0, 0, 2:30, 2:30].min() == 1
    assert lenet_input(np.zeros((1, 64, 48, 3), np.uint8), device="cpu").shape == (1, 3, 32, 32)
    real, test = pictures(400), pictures(300, seed=1)
    noise = rng(4).integers(0, 256, real[0].shape, dtype=np.uint8), real[1]
    found = evaluated({"real": real, "synthetic": noise}, test, models=(), lenet=True)
    for metric in ("lenet_fid", "lenet_kid"):
        scores = [found.find(metric, source=source) for source in ("real", "synthetic")]
        assert abs(scores[0].value) < scores[1].value / 10
    assert scores[0].why is None
    fid = found.find("lenet_fid")
    assert fid.low < fid.value < fid.high
    alone = evaluated({"synthetic": noise}, test, models=(), lenet=True)
    assert "trained on the test images" in alone.find("lenet_fid").why


def test_subsets_of_many_images_give_kid_an_interval():
    many = pictures(2_000), pictures(2_000, seed=1)
    kid = evaluated({"real": many[0]}, many[1], models=(), lenet=True).find(
        "lenet_kid", source="real"
    )
    assert kid.low < kid.value < kid.high


def curve(sizes, means):
    return SizeCurve(sizes=tuple(sizes), accuracies=np.array(means, float)[:, None])


def test_a_set_is_worth_as_many_real_images_as_do_equally_well():
    real = curve([100, 1_000, 10_000], [0.5, 0.7, 0.9])
    assert real.size_for(0.7) == pytest.approx(1_000)
    assert real.size_for(0.8) == pytest.approx(1_000 * 10**0.5)
    assert real.size_for(0.2) == 100
    assert real.size_for(0.95) is None
    dented = curve([100, 1_000, 10_000], [0.5, 0.45, 0.9])
    assert dented.size_for(0.5) == 100


def test_the_effective_size_is_where_more_images_stop_helping():
    assert curve([10, 100, 1_000], [0.5, 0.695, 0.7]).effective_size() == 100
    assert curve([10, 100, 1_000], [0.5, 0.6, 0.7]).effective_size() == 1_000
    assert curve([10, 100, 1_000], [0.5, 0.695, 0.7]).effective_size(tolerance=0) == 1_000


def test_sizes_at_which_nothing_could_be_trained_count_as_below_the_others():
    holed = curve([60, 120, 300], [np.nan, 0.5, 0.8])
    assert holed.effective_size() == 300
    assert holed.size_for(0.4) == 120
    assert 120 < holed.size_for(0.7) < 300
    empty = curve([60, 120], [np.nan, np.nan])
    for ask in (empty.effective_size, lambda: empty.size_for(0.5)):
        with pytest.raises(ValueError, match="no size of this curve has an accuracy"):
            ask()


def test_parts_of_a_set_have_the_classes_in_equal_numbers():
    order = balanced_order(TRAIN[1], rng=rng())
    assert sorted(order) == list(range(240))
    assert np.bincount(TRAIN[1][order[:30]]).tolist() == [10, 10, 10]


def test_accuracy_grows_with_real_images_and_copies_of_a_few_are_worth_few():
    hard = [pictures(n, seed=s, hard=True) for n, s in ((600, 0), (600, 1))]
    few = balanced_order(hard[0][1], rng=rng(9))[:12]
    copies = tuple(np.tile(part[few], (50, *[1] * (part.ndim - 1))) for part in hard[0])
    sizes = (12, 60, 5_000)
    seen = []
    real = size_curve(
        *hard, rng=rng(), sizes=sizes, repeats=2, progress=lambda *step: seen.append(step)
    )
    copied = size_curve(copies, hard[1], rng=rng(), sizes=sizes, repeats=2)
    assert real.sizes == (12, 60, 600)
    assert real.accuracies.shape == (3, 2)
    assert seen[-1] == (6, 6)
    assert real.means[-1] > real.means[0] + 0.02
    assert real.size_for(copied.means[-1]) < 60
    with pytest.raises(ValueError, match="images to train on"):
        size_curve((TRAIN[0][:0], TRAIN[1][:0]), TEST, rng=rng())


def test_the_figure_of_the_curves_shows_each_set_and_what_it_is_worth():
    sets = {
        name: (sizes.sizes, sizes.means, sizes.stds)
        for name, sizes in {
            "real": curve([100, 1_000], [0.5, 0.9]),
            "synthetic": curve([100, 1_000], [0.5, 0.6]),
            "other": curve([100, 1_000], [0.4, 0.5]),
        }.items()
    }
    axis = size_curves_figure(sets, title="digits", worth=178).axes[0]
    assert [text.get_text() for text in axis.get_legend().get_texts()] == list(sets)
    assert "worth 178 real images" in axis.texts[0].get_text()
    assert not size_curves_figure(sets, title="digits").axes[0].texts
