"""The families of networks, and the interface that they share."""
