"""Packages that tests give to fairseq as --user-dir."""
