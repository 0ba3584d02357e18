"""Fuzzing of everything that reads text or files of others."""
