"""Generators: what is trained from a gist and sampled from."""
