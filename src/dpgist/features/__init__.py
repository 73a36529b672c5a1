"""Feature maps: rows, one by one, to bounded vectors."""
