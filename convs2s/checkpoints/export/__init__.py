"""Export of models: the card of a folder to share, fairseq's own transformer, and ONNX."""
