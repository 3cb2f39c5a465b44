"""Shards of this process in the place of a cluster, so that what they compute can be compared in a few milliseconds."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

from kernelfields.engines.dask.engine import Dask
from kernelfields.engines.dask.sample import DaskSample
from kernelfields.engines.dask.shards import Shard, ShardGroup, answer


class ShardsHere(ShardGroup):
    """A group whose requests are pickled and answered at once; ``lose`` makes shards forget, as on a new worker."""

    def __init__(self, data, cuts):
        shards = [Shard(data.subset(slice(first, last)), number) for number, (first, last) in enumerate(cuts)]
        super().__init__(SimpleNamespace(submit=self._answered), shards)

    @staticmethod
    def _answered(function, *arguments, **keywords):
        if function is not answer:
            return SimpleNamespace(result=lambda: function(*pickle.loads(pickle.dumps(arguments))))
        shard, request = arguments
        return pickle.loads(pickle.dumps(answer(shard, pickle.loads(pickle.dumps(request)))))

    def lose(self, index):
        """Make one shard anew from what a worker would have."""
        self.futures[index] = pickle.loads(pickle.dumps(self.futures[index]))

    def _find_holders(self, indices):
        """All shards are here."""

    def _results(self, sent):
        return sent


class DaskHere(Dask):
    """The Dask engine without a cluster: three shards of this process, of which the second may be short."""

    def check(self):
        """There is nothing to connect to."""

    def place(self, data, spec, settings):
        n_items = len(data.offsets) - 1
        cuts = [(0, n_items // 2), (n_items // 2, n_items // 2 + 1), (n_items // 2 + 1, n_items)]
        return DaskSample(ShardsHere(data, cuts), data.n_positions, spec, settings)
