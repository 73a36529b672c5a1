"""The order of the tests."""

LONGEST = "test_whole_releases_waste_little"


def pytest_collection_modifyitems(items):
    """Begin with the longest test, or one process would end with it alone."""
    items.sort(key=lambda item: item.name != LONGEST)
