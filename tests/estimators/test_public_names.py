"""The names that an estimator shows before a fit: those of users."""

from kernelfields import ChainCRF

#: What scikit-learn calls, and what it adds to methods that take more than X and y.
SCIKIT_LEARN = {
    *("fit", "partial_fit", "predict", "score", "get_params", "set_params", "get_metadata_routing"),
    *(
        "set_fit_request",
        "set_partial_fit_request",
        "set_predict_request",
        "set_predict_proba_request",
        "set_score_request",
    ),
}
#: What users ask of a fitted field, and of files.
ANSWERS = {
    *(
        "predict_marginals",
        "predict_proba",
        "predict_variances",
        "predict_nbest",
        "predict_entities",
        "predict_boundaries",
        "sample",
    ),
    *("log_likelihood", "entropy", "laplace", "sample_coefficients", "certify", "stream", "save", "load"),
    *("weights", "explain", "summary", "show"),
    # All questions about labels, of which further answers are made, and how items are read.
    *("answers", "structure"),
}


def shown(estimator):
    return {name for name in dir(estimator) if not name.startswith("_")}


def test_a_chain_shows_what_users_need_and_nothing_else():
    chain = ChainCRF()
    assert shown(chain) == set(chain.get_params(deep=False)) | SCIKIT_LEARN | ANSWERS
