"""A pytest plug-in that sabotages the wall for a whole run: the plant named in DPGIST_PLANT."""

import os
from contextlib import ExitStack

from tests.trust.plants import PLANTS

_PLANTED = ExitStack()  # held for good: a plant that is collected is taken out again


def plant_from_environment():
    """Break what DPGIST_PLANT names until the process ends; nothing if it is not set."""
    name = os.environ.get("DPGIST_PLANT")
    for plant in PLANTS:
        if plant.name == name:
            _PLANTED.enter_context(plant.planted())


def pytest_configure(config):
    plant_from_environment()
