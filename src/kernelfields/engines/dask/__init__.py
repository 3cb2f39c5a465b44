"""The Dask engine: sequences in shards on the workers of a cluster."""
