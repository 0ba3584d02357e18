"""Export of models to other programs: fairseq's own transformer, and ONNX."""
