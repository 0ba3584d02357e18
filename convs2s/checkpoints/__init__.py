"""Checkpoint files: reading, writing, converting and exporting them."""
