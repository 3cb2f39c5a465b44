"""The Dask engine: fits that the workers of a cluster run together, and collections."""
