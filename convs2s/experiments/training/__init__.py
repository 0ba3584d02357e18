"""``convs2s train``: recipes, the command of a training run, and the run itself."""
