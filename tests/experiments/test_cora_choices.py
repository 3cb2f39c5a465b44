"""Self-training of the experiment on citations: which papers are taken for labelled."""

import numpy as np

from experiments.cora import surest


def test_the_surest_share_of_a_guessed_topic_is_taken():
    guess, sure = np.array([0, 0, 0, 0, 1, 1]), np.array([0.9, 0.5, 0.8, 0.99, 0.7, 0.6])
    unlabelled = np.array([0, 1, 2, 4, 5])
    assert surest(unlabelled, guess, sure, 0, 0.67).tolist() == [0, 2]
    assert surest(unlabelled, guess, sure, 1, 0.5).tolist() == [4]
    assert surest(unlabelled, guess, sure, 1, 0.4).tolist() == []
