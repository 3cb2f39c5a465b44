"""The Dask engine: joint fits of the workers of a cluster, and collections."""
