"""Properties of every model, on random architectures, batches and searches."""
