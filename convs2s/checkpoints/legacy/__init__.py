"""Checkpoints of older programs: read as data only, cleaned, and converted to today's models."""
