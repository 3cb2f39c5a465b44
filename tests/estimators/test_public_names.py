"""The names that an estimator shows before a fit: those of users, and few that other rooms ask for."""

from kernelfields import ChainCRF

#: What scikit-learn calls, and what it adds to methods that take more than X and y.
SCIKIT_LEARN = {
    *("fit", "partial_fit", "predict", "score", "get_params", "set_params", "get_metadata_routing"),
    *("set_fit_request", "set_partial_fit_request", "set_predict_request", "set_score_request"),
}
#: What users ask of a fitted field, and of files.
ANSWERS = {
    *("predict_marginals", "predict_variances", "predict_nbest", "predict_entities", "predict_boundaries", "sample"),
    *("log_likelihood", "entropy", "laplace", "sample_coefficients", "certify", "stream", "save", "load"),
    *("weights", "explain", "summary", "show"),
}
#: What other rooms and further estimators ask for: this list may only get shorter.
OF_THE_PACKAGE = {
    *("structure", "answer_format", "decision_rule", "answers", "behind"),
    *("check_parameters", "fit_in_steps", "fit_state", "set_fitted"),
    *("kind", "to_document", "from_document"),
}


def shown(estimator):
    return {name for name in dir(estimator) if not name.startswith("_")}


def test_a_chain_shows_what_users_need_and_little_else():
    chain = ChainCRF()
    others = shown(chain) - set(chain.get_params(deep=False)) - SCIKIT_LEARN - ANSWERS
    assert others == OF_THE_PACKAGE, "a name of users belongs into a list above; others belong into an object"
