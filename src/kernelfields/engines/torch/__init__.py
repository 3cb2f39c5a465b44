"""The torch engine: features, inference and sums on one device of PyTorch."""
