"""Pictures: attention, models in ADL, curves of training runs, sweeps."""
