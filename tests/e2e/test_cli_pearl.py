"""PEARL by the command line: plan, synthesize, train again, card and report."""

import json

import dpgist as dg

BUDGET = ["--epsilon", "1", "--delta", "1e-6"]
PEARL = ["--schema", "people.toml", *BUDGET, "--method", "pearl"]


def test_pearl_is_planned_released_trained_shown_and_reported(dpgist, people):
    assert "characteristic: " in dpgist("plan", *PEARL).out
    made = dpgist("synthesize", "people.csv", *PEARL, "--steps", 3, "--rows", 50, "--out", "out")
    assert made.status == 0, made.err
    assert json.loads((people / "out" / "card.json").read_text())["method"] == "pearl"
    assert dg.read_model(people / "out" / "generator.model").training["critic"] is True
    again = ["train", "out/release.gist", "--steps", 3, "--no-critic", "--out", "plain.model"]
    assert dpgist(*again).status == 0
    assert dg.read_model(people / "plain.model").training["critic"] is False
    assert "pearl" in dpgist("show", "plain.model").out
    assert dpgist("report", "out").status == 0
    assert "pearl" in (people / "out" / "report.html").read_text()


def test_a_critic_for_another_method_is_refused_before_anything_is_spent(dpgist, people):
    other = [*PEARL[:-1], "merf", "--critic", "--out", "out"]
    refused = dpgist("synthesize", "people.csv", *other)
    assert refused.status == 2
    assert "method pearl" in refused.err
    assert not (people / "out").exists()
