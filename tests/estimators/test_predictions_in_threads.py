"""Eight threads ask one model at once: every estimator gives each of them the answers that one thread gets."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest

from kernelfields import ChainCRF, EdgeCliques, ExponentialFamilyDensity, GraphCRF, KernelClassifier, MultiLabelCRF
from kernelfields.compat import CRF
from tests.samples import as_words, labelled_instances, labelled_sequences

N_THREADS = 8
X, Y = labelled_sequences(24)
DICTS = [[{"sign": str(row[0] > 0), "size": float(abs(row[1]))} for row in x] for x in X]
RINGS = [(x, [(t, (t + 1) % len(x)) for t in range(len(x))]) for x in X if len(x) > 2]
RING_LABELS = [y for y in Y if len(y) > 2]
INSTANCES, INDICATOR = labelled_instances()
QUICK = {"tol": 0.05, "random_state": 0}

#: Estimators on few data, and what they are asked, of the part of a thread.
MODELS = {
    "chain": (
        lambda: ChainCRF("rbf", rank=15, edges=EdgeCliques("linear"), n_jobs=2, **QUICK).fit(X, Y),
        lambda crf, part: [
            crf.predict(X[part::N_THREADS]),
            crf.predict_marginals(X[part::N_THREADS]),
            crf.log_likelihood(X[part::N_THREADS], Y[part::N_THREADS], per_item=True),
            crf.sample(X[part::N_THREADS], 2, random_state=part),
            [labels for ranked in crf.predict_nbest(X[part::N_THREADS], 3) for labels, _ in ranked],
        ],
    ),
    "graph": (
        lambda: GraphCRF("rbf", rank=15, **QUICK).fit(RINGS, RING_LABELS),
        lambda crf, part: [crf.predict(RINGS[part::N_THREADS]), crf.predict_marginals(RINGS[part::N_THREADS])],
    ),
    "several labels": (
        lambda: MultiLabelCRF("rbf", rank=15, **QUICK).fit(INSTANCES, INDICATOR),
        lambda crf, part: [crf.predict(INSTANCES[part::N_THREADS]), crf.predict_proba(INSTANCES[part::N_THREADS])],
    ),
    "classifier": (
        lambda: KernelClassifier("rbf", rank=15, **QUICK).fit(INSTANCES, INDICATOR[:, 0]),
        lambda model, part: [model.predict_proba(INSTANCES[part::N_THREADS])],
    ),
    "density": (
        lambda: ExponentialFamilyDensity("rbf", rank=10, random_state=0).fit(INSTANCES[:, :1]),
        lambda model, part: [
            model.score_samples(INSTANCES[part::N_THREADS, :1]),
            model.mean(),
        ],
    ),
    "sklearn-crfsuite's CRF": (
        lambda: CRF(max_iterations=20).fit(DICTS, [labels.tolist() for labels in as_words(Y)]),
        lambda crf, part: [crf.predict(DICTS[part::N_THREADS]), crf.predict_marginals(DICTS[part::N_THREADS])],
    ),
}


def same(one, other):
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return np.array_equal(one, other) if isinstance(one, np.ndarray) else one == other


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*stopped:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", MODELS)
def test_threads_get_the_answers_of_one_thread(name, tmp_path):
    fit, ask = MODELS[name]
    fitted = fit()
    expected = [ask(fitted, part) for part in range(N_THREADS)]
    # What was loaded has answered nothing yet: what is made on first use is made by all threads at once.
    fitted.save(tmp_path / "model")
    model, together = type(fitted).load(tmp_path / "model"), Barrier(N_THREADS)

    def asked(part):
        together.wait(60)
        return [ask(model, part) for _ in range(3)]

    with ThreadPoolExecutor(N_THREADS) as threads:
        for once, answers in zip(expected, threads.map(asked, range(N_THREADS)), strict=True):
            assert all(same(each, once) for each in answers)
