"""Small things that the other parts use: errors, files, programs, tables."""
