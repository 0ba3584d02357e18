"""Speed and memory relative to a peer's model, both measured in one process."""
