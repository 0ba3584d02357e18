"""Reading what other implementations wrote."""
