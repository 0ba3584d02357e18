"""Pictures: attention, curves of training runs, sweeps."""
