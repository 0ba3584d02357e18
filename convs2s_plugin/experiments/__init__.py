"""Experiments: systems that a YAML file describes, trained, translated and compared."""
