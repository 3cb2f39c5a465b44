"""Terms on data: features and their two products, in memory, in files, recomputed."""
