"""The wall: private rows go in, one noisy vector of integers comes out."""
