"""Two processes that fit together, by gloo, without Dask: they stay for all tests of a session."""

from __future__ import annotations

import multiprocessing
import traceback
import warnings

import cloudpickle
from torch import distributed

from kernelfields.engines import Engine, Threads
from kernelfields.engines.together.collective import Collective, Parted, joined
from kernelfields.engines.together.placing import place_part
from kernelfields.numerics.group import RUNNING


class Together(Engine):
    """The engine of a process that fits with others."""

    name = "dask"

    def __init__(self, workers=None):
        self.workers = workers

    @property
    def alone(self):
        """The engine of a process by itself."""
        return self.workers or Threads()

    def broadcast(self, value):
        """Return the value of the first process."""
        return RUNNING.get().gather(value)[0]

    def place(self, data, spec, settings):
        """Return the part of this process."""
        return place_part(self.workers or Threads(), data, spec, settings, RUNNING.get())


def _serve(pipe, rank, size, port):
    """Run functions of the collective until there are no more."""
    warnings.simplefilter("ignore")
    store = distributed.TCPStore("127.0.0.1", port, is_master=False)
    number = 0
    while (sent := pipe.recv()) is not None:
        number += 1
        try:
            function = cloudpickle.loads(sent)
            own = distributed.PrefixStore(str(number), store)
            with joined(Collective(own, rank, size, timeout=60.0)) as collective:
                answer = function(collective)
        except Exception as error:  # noqa: BLE001  # whatever it is, it is raised where the test is
            error.add_note(traceback.format_exc())
            answer = error
        pipe.send(cloudpickle.dumps(answer))


class Processes:
    """Processes of their own, which run the same function at the same time."""

    def __init__(self, size=2):
        self._store = distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        context = multiprocessing.get_context("spawn")
        self._pipes, self._processes = [], []
        for rank in range(size):
            here, there = context.Pipe()
            process = context.Process(target=_serve, args=(there, rank, size, self._store.port), daemon=True)
            process.start()
            self._pipes.append(here)
            self._processes.append(process)

    def __call__(self, function):
        """Return what a function of the collective returns in each; raise the first error that is its own."""
        for pipe in self._pipes:
            pipe.send(cloudpickle.dumps(function))
        answers = [cloudpickle.loads(pipe.recv()) for pipe in self._pipes]
        errors = [answer for answer in answers if isinstance(answer, Exception)]
        if errors:
            raise next((error for error in errors if not isinstance(error, Parted)), errors[0])
        return answers

    def close(self):
        """End the processes."""
        for pipe, process in zip(self._pipes, self._processes, strict=True):
            pipe.send(None)
            process.join(10)
