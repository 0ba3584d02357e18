"""The attention of sentence pairs as data, as a picture or as a page: `convs2s plot-attention`."""
