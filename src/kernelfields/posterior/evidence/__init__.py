"""Prior variances and kernel parameters by the evidence."""
