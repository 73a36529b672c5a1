"""Training: a generator is fitted to a gist, never to rows."""
