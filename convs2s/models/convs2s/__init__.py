"""ConvS2S: convolutional sequence to sequence learning (Gehring et al. 2017)."""
