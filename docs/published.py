"""BLEU of tables that experiments in ``examples`` repeat in small, by the name of the system."""

# Gehring et al. (2017), WMT'14 English-German. The tables give the first model two values.
POSITIONS_AND_ATTENTION = {
    "base": "21.7; 21.63",
    # Table 4
    "no_source_positions": "21.3",
    "no_target_positions": "21.5",
    "no_positions": "21.2",
    # Table 5
    "attention_135": "21.10",
    "attention_1": "21.26",
}

# Elbayad et al. (2018), Table 1: IWSLT'14 German-English.
AGGREGATION = {
    "pervasive": "33.70 ± 0.06",
    "avg": "31.57 ± 0.11",
    "attn": "32.07 ± 0.13",
    "max_attn": "33.81 ± 0.03",
}

# Domhan (2018), Table 5: IWSLT'16 English-German.
ADL_PAIRS = {
    "transformer": "25.4 ± 0.2",
    "self_att_rnn": "25.1 ± 0.1",
    "self_att_cnn": "25.4 ± 0.4",
    "rnn_self_att": "25.8 ± 0.1",
    "cnn_self_att": "25.7 ± 0.1",
    "rnn_rnn": "25.1 ± 0.1",
    "cnn_cnn": "25.3 ± 0.3",
    "self_att_combined": "25.1 ± 0.2",
    "self_att_none": "23.7 ± 0.2",
}

# Domhan (2018), Table 3: IWSLT'16 English-German.
ADL_STEPS = {
    "transformer": "25.4 ± 0.1",
    "rnn": "22.8 ± 0.2",
    "rnn_mh": "23.7 ± 0.4",
    "rnn_pos": "23.9 ± 0.2",
    "rnn_norm": "23.7 ± 0.1",
    "rnn_multi_att_1h": "24.5 ± 0.0",
    "rnn_multi_att": "24.4 ± 0.3",
    "rnn_rnn": "25.1 ± 0.1",
}

# Domhan (2018), Table 4: IWSLT'16 English-German.
ADL_CONVOLUTIONS = {
    "transformer": "25.4 ± 0.1",
    "cnn_glu": "24.3 ± 0.4",
    "cnn_glu_norm": "24.1 ± 0.1",
    "cnn_glu_mh": "24.2 ± 0.2",
    "cnn_glu_ff": "25.3 ± 0.1",
    "cnn_relu": "23.6 ± 0.3",
    "cnn_relu_norm": "24.3 ± 0.1",
    "cnn_relu_mh": "24.2 ± 0.2",
    "cnn_cnn": "25.3 ± 0.3",
    # Section 2.4; the paper does not train it.
    "convs2s": "",
}
