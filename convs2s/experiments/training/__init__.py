"""``convs2s train``: recipes, the command of a training, and its run."""
