"""Speed as a ratio to a peer's, measured side by side in one process."""
