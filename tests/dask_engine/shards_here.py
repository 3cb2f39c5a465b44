"""Shards of this process in the place of a cluster, so that what they compute can be compared in a few milliseconds."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

from kernelfields.engines import Dask
from kernelfields.engines.dask.data import ShardedData
from kernelfields.engines.dask.sample import DaskSample, permuted_rows
from kernelfields.engines.dask.shards import Shard, ShardGroup


def carried(value):
    """Return a value as it arrives in another process."""
    return pickle.loads(pickle.dumps(value))


class ClientHere:
    """A client of nobody: what is submitted is done at once; futures are results."""

    def submit(self, function, *arguments, **keywords):
        if function is permuted_rows:
            return SimpleNamespace(result=lambda: function(*carried(arguments)))
        # Shards stay where they are, all else travels.
        came = [each if isinstance(each, Shard) else carried(each) for each in arguments]
        found = function(*came)
        return found if isinstance(found, Shard) else carried(found)

    def compute(self, values):
        return [value.compute(scheduler="synchronous") for value in values]

    def gather(self, futures):
        return futures

    def nthreads(self):
        return {"here": 1, "there": 1}


class ShardsHere(ShardGroup):
    """A group whose requests are answered at once; ``lose`` makes a shard forget, as on a new worker."""

    def lose(self, index):
        """Make one shard anew from what a worker would have."""
        self.futures[index] = carried(self.futures[index])

    def _find_holders(self, indices):
        """All shards are here."""

    def _results(self, sent):
        return sent

    def _sum(self, root, sent):
        return root


class DaskHere(Dask):
    """The Dask engine without a cluster: three shards of this process, of which the second may be short."""

    def check(self):
        """There is nothing to connect to."""

    def place(self, data, spec, settings):
        if isinstance(data, ShardedData):
            return super().place(data, spec, settings)
        n_items = len(data.offsets) - 1
        cuts = [(0, n_items // 2), (n_items // 2, n_items // 2 + 1), (n_items // 2 + 1, n_items)]
        shards = [Shard(data.subset(slice(first, last)), number) for number, (first, last) in enumerate(cuts)]
        return DaskSample(ShardsHere(ClientHere(), shards), data.n_positions, spec, settings, self.workers)


def kind_of_table(datafit, index):
    """Return the name of the class of a term's table in a shard."""
    return type(datafit.designs[index].table).__name__
