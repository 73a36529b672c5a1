"""Rehearsals: repeatable or no noise, for public rows, never to be taken for a private release."""

import hashlib
import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import load, save
from tests.made_gists import MIXED, mixed_table
from tests.trust import worlds

import dpgist as dg
from dpgist.card import NO_GUARANTEE, REHEARSAL
from dpgist.gist import REHEARSAL_LEDGER
from dpgist.methods import METHODS
from dpgist.outputs import model_card
from dpgist.testing import NoNoise, RepeatableNoise, rehearse

BUDGET = dg.Budget(epsilon=1.0, delta=1e-5, relation="replace_one")
METHOD = dg.Merf(joint_frequencies=16, pair_frequencies=20)
TABLE = mixed_table(200)


def made(noise, *, table=TABLE, method=METHOD, budget=BUDGET, public="simulated here"):
    return rehearse(table, MIXED, method, budget, public=public, noise=noise, seed=3)


def values_of(gist):
    return [block.values for stage in gist.released.stages for block in stage.blocks]


def same(first, second):
    pairs = zip(values_of(first), values_of(second), strict=True)
    return all(np.array_equal(one, other) for one, other in pairs)


@pytest.fixture(scope="module")
def gist():
    return made(RepeatableNoise(seed=1))


def test_without_noise_the_values_are_the_curators_exact_sums():
    plan = METHOD.plan(MIXED, budget=BUDGET, feature_seed=3)
    _, sums = worlds.exact_sums(TABLE, plan, BUDGET, MIXED)
    for exact, released in zip(sums, values_of(made(NoNoise())), strict=True):
        assert np.array_equal(exact, released)


def test_the_same_seed_gives_the_same_noise_and_another_seed_another(gist):
    assert same(gist, made(RepeatableNoise(seed=1)))
    assert not same(gist, made(RepeatableNoise(seed=2)))


def test_repeatable_noise_has_the_size_the_gist_states(gist):
    exact = made(NoNoise())
    for one, other in zip(gist.released.last.blocks, exact.released.last.blocks, strict=True):
        noise = (one.values - other.values) / one.grid_noise_std
        if noise.size > 50:
            assert abs(noise.std() - 1) < 6 / np.sqrt(2 * noise.size)
            assert abs(noise.mean()) < 6 / np.sqrt(noise.size)


@pytest.mark.parametrize("name", sorted({*METHODS} - {dg.Scattering.name}))
def test_a_rehearsal_of_any_method_for_tables_can_be_trained(name):
    rehearsed = made(NoNoise(), method=METHODS[name]())
    training = dg.Training(steps=2, components=5)
    assert dg.train(rehearsed, training, seed=0, rehearsal=True).losses


def test_blocks_and_stages_never_share_their_noise():
    table, method = TABLE.iloc[:0], replace(METHOD, length_scale="paid")
    first, last = made(RepeatableNoise(seed=1), table=table, method=method).released.stages
    draws = [block.values / block.grid_noise_std for block in (*first.blocks, *last.blocks)]
    starts = {tuple(np.round(draw.ravel()[:1], 6)) for draw in draws}
    assert len(starts) == len(draws)


@pytest.mark.parametrize("reason", ["", "   "])
def test_a_reason_why_the_rows_are_public_is_demanded(reason):
    with pytest.raises(ValueError, match="need no protection"):
        made(NoNoise(), public=reason)
    with pytest.raises(TypeError, match="public"):
        rehearse(TABLE, MIXED, METHOD, BUDGET, noise=NoNoise())


def test_training_refuses_a_rehearsal_without_the_flag(gist):
    with pytest.raises(dg.PrivacyError, match="rehearsal"):
        dg.train(gist, dg.Training(steps=1, components=2))


@pytest.mark.parametrize("noise", [NoNoise(), RepeatableNoise(seed=4)])
def test_the_card_says_loudly_that_there_is_no_privacy(noise):
    card = made(noise, public="simulated for this test").card()
    assert card.splitlines()[3] == REHEARSAL
    assert "GUARANTEE\n  NONE. This is a rehearsal" in card
    assert noise.words in card
    assert "rows declared public: simulated for this test" in card
    for promise in ("differential privacy", "AES-256", "an attacker is right at most"):
        assert promise not in " ".join(card.split())


def test_files_and_models_keep_the_stamp(gist, tmp_path):
    gist.save(tmp_path / "a.gist")
    again = dg.read_gist(tmp_path / "a.gist")
    assert again.rehearsal
    assert again.card() == gist.card()
    with pytest.raises(dg.PrivacyError, match="rehearsal"):
        dg.train(again, dg.Training(steps=1, components=2))
    model = dg.train(again, dg.Training(steps=1, components=2), rehearsal=True)
    model.save(tmp_path / "a.model")
    card = model_card(dg.read_model(tmp_path / "a.model"))
    assert card["rehearsal"]
    assert card["guarantee"] == NO_GUARANTEE


def test_a_flag_flipped_in_the_object_is_refused(gist):
    with pytest.raises(dg.PrivacyError, match="contradicts itself"):
        replace(gist, rehearsal=False)
    stamp = replace(gist.ledger, ledger_id="f00d")
    with pytest.raises(dg.PrivacyError, match="contradicts itself"):
        replace(gist, ledger=stamp)


def test_a_flag_flipped_in_the_file_breaks_its_checksum(gist, tmp_path):
    path = tmp_path / "a.gist"
    gist.save(path)
    content = path.read_bytes()
    flipped = content.replace(b'\\"rehearsal\\":true', b'\\"rehearsal\\":fals ')
    assert flipped != content
    path.write_bytes(flipped)
    with pytest.raises(dg.ArtefactError):
        dg.read_gist(path)


@pytest.mark.parametrize("kind", ["gist", "model"])
def test_a_flipped_flag_under_a_fresh_checksum_is_refused_too(gist, tmp_path, kind):
    path = tmp_path / f"a.{kind}"
    if kind == "gist":
        gist.save(path)
    else:
        dg.train(gist, dg.Training(steps=1, components=2), rehearsal=True).save(path)
    path.write_bytes(forged(path.read_bytes()))
    with pytest.raises(dg.ArtefactError, match="contradicts itself"):
        (dg.read_gist if kind == "gist" else dg.read_model)(path)


def forged(content):
    """The same file with every rehearsal flag off and a checksum that fits."""
    length = int.from_bytes(content[:8], "little")
    head = json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["dpgist"])
    text = json.dumps(head["payload"]).replace('"rehearsal": true', '"rehearsal": false')
    assert text != json.dumps(head["payload"])
    head = {**head, "payload": json.loads(text), "sha256": "0" * 64}
    plain = json.dumps(head, sort_keys=True, separators=(",", ":"))
    blank = save(load(content), metadata={"dpgist": plain})
    return blank.replace(b"0" * 64, hashlib.sha256(blank).hexdigest().encode(), 1)


def test_the_stamp_of_a_rehearsal_is_none_that_a_ledger_gives():
    ledger = dg.Ledger.in_memory(name="mixed", budget=BUDGET, max_rows_per_person=1)
    private = dg.release(TABLE, MIXED, METHOD, BUDGET, ledger=ledger, seed=3)
    assert private.ledger.ledger_id != REHEARSAL_LEDGER
    assert "differential privacy" in private.card()


def test_importing_the_package_does_not_import_the_rehearsal_room():
    code = "import dpgist, dpgist.cli, sys; assert 'dpgist.testing' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
