"""Pervasive attention, 2-D convolutional networks over source and target (Elbayad et al. 2018)."""
