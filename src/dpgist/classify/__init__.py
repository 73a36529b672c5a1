"""A private classifier that explains itself: locally linear maps trained by DP-SGD."""
