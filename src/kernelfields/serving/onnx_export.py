"""Chains as ONNX graphs: from the inputs of one sequence to its labels, marginals and log partition function.

    to_onnx(crf, "model.onnx")

Inputs: ``inputs`` (T, d) double; for models of sparse inputs, feature dicts or feature strings the parts of a CSR
matrix, ``indptr`` (T + 1,) and ``indices`` (E,) int64 and ``values`` (E,) double. Outputs: ``labels`` (T,) int64,
numbers of the classes; ``marginals`` (T, L) double; ``log_partition`` () double. Metadata, as JSON: classes,
feature_names, n_features, decode. Passes are those of inference/chain/plain.py, a loop each:

    forward    d_t(b) = u_t(b) + op_a (d_{t-1}(a) + w_t(a, b))        op: maximum, or log of the sum of exponentials
    backward   follow the pointers, or the same from the end

with every row shifted to a maximum of zero. Kernels, scores and passes are computed in double precision.
Raises ServingError with the part of the model that ONNX does not support; ImportError without onnx.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from kernelfields.data.text_files import open_output
from kernelfields.serving.chain_model import SERVED, ChainModel, Term, load_chain, rebuild_chain
from kernelfields.serving.inputs import ServingError
from kernelfields.serving.onnx_graph import (
    IR_VERSION,
    OPSET,
    DenseGraphRows,
    Graph,
    GraphRows,
    InputRows,
    SparseGraphRows,
    Value,
    dense_matrix,
    log_sum_exp,
)

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

OUTPUTS = ("labels", "marginals", "log_partition")
#: Estimators around a field whose answers are not those of the field.
_OWN_PROBABILITIES = ("CalibratedField", "ConformalField")


def to_onnx(
    model: BaseEstimator | ChainModel | str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    decode: str | None = None,
    outputs: Sequence[str] = OUTPUTS,
) -> None:
    """Write a fitted chain as an ONNX graph.

    It needs the package ``onnx``: ``pip install "kernelfields[onnx]"``. The graph takes one sequence: ``inputs`` (T,
    d), or ``indptr``, ``indices`` and ``values`` of a CSR matrix for sparse features. Kernels, scores and passes are
    computed in double precision.

    Parameters
    ----------
    model : ChainCRF, KernelClassifier, ``compat.CRF``, ChainModel or path
        A fitted estimator, a model that was read by :func:`load_chain`, or the path of a model file.
    path : path
        The file to write; it replaces an old one once it is complete. "-" is standard output.
    decode : {"viterbi", "posterior"}, optional
        How ``labels`` are chosen, as in ``ChainCRF.predict``; by default as in the fit.
    outputs : sequence of str, default ("labels", "marginals", "log_partition")
        The answers of the graph; others are not computed.

    Raises
    ------
    ServingError
        If the model has what a graph of ONNX cannot express, which the message names.

    See Also
    --------
    load_chain : Predicts with NumPy alone.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF
    >>> from kernelfields.serving import to_onnx
    >>> X = [np.array([[0.0], [1.0], [1.0]]), np.array([[1.0], [0.0]])]
    >>> crf = ChainCRF("linear", prior_variance=1.0, scale=False).fit(X, [["a", "b", "b"], ["b", "a"]])
    >>> to_onnx(crf, "chain.onnx")
    >>> from onnxruntime import InferenceSession
    >>> labels, marginals, _ = InferenceSession("chain.onnx").run(None, {"inputs": X[0]})
    >>> labels.tolist(), marginals.shape
    ([0, 1, 1], (3, 2))
    """
    unknown = [name for name in outputs if name not in OUTPUTS]
    if unknown or not outputs:
        raise ValueError(f"outputs must be some of {', '.join(OUTPUTS)}, got {list(outputs)}")
    chain = _check_chain(model)
    if chain.inputs.dictionary is not None:
        raise ServingError("the labels of a LabelDictionary have no form in ONNX: use load_chain for this model")
    content = _Export(chain).build(outputs, chain.decodes_jointly(decode))
    with open_output(path) as file:
        file.write(content)


def _check_chain(model: BaseEstimator | ChainModel | str | os.PathLike[str]) -> ChainModel:
    if isinstance(model, ChainModel):
        return model
    if isinstance(model, str | os.PathLike):
        return load_chain(model)
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import check_is_fitted

    from kernelfields.models.stored import describe_stored
    from kernelfields.models.wrapped_field import WrappedField, unwrap_pipeline

    if isinstance(model, Pipeline):  # ONNX does not have the steps before
        model = model[-1]
    model, _ = unwrap_pipeline(model, None)
    while isinstance(model, WrappedField) and type(model).__name__ not in _OWN_PROBABILITIES:
        model = model.get_fitted()
    kind = type(model).__name__
    if kind not in SERVED:
        raise ServingError(f"a {kind} cannot be exported to ONNX: {', '.join(SERVED)} can")
    check_is_fitted(model, msg="this %(name)s is not fitted yet: call fit before it is exported")
    # Neither has it what makes features of words: load_chain(path).inputs.encoded(words) does.
    return rebuild_chain(kind, {**describe_stored(model)[1], "features": ()})


class _Export:
    """The ONNX graph of one chain."""

    def __init__(self, chain: ChainModel):
        self.chain, self.graph = chain, Graph()
        self.n_labels = len(chain.classes_)
        graph, inputs = self.graph, chain.inputs
        arrays = {name: graph.value(name, name) for name in ("inputs", "indptr", "indices", "values")}
        length = arrays["indptr" if inputs.sparse else "inputs"].node("Shape").part(graph.whole(0), graph.whole(1))
        #: [T], the number of positions.
        self.length = length - graph.whole(1) if inputs.sparse else length
        count = self.length.node("Squeeze")
        zero, one = (graph.constant(np.int64(number), np.int64) for number in (0, 1))
        positions = zero.node("Range", count, one)
        #: Which positions begin and end the sequence, (T,) of booleans.
        self.is_first = positions.node("Equal", zero)
        self.is_last = positions.node("Equal", count - one)
        if inputs.sparse:
            parts = arrays["indptr"], arrays["indices"], arrays["values"]
            self.rows: InputRows = SparseGraphRows.from_inputs(*parts, inputs.n_features, self.length)
        else:
            rows = arrays["inputs"]
            try:
                for step in inputs.steps.of_table():
                    rows = step.arithmetic(rows)
            except ValueError as error:
                raise ServingError(str(error)) from error
            self.rows = DenseGraphRows(rows, inputs.n_columns)

    def _compute_potentials(self) -> tuple[Value, Value | None]:
        """Return scores of labels (T, L) and of steps (T, L, L), zero for the first; None for constant steps."""
        graph, masks = self.graph, self.chain.masks
        at = {"node": None, "start": self.is_first, "end": self.is_last}
        label, start, end = (graph.constant(masks[name][None]) for name in ("label", "start", "end"))
        node = [label.node("Expand", self._shape(self.n_labels))]
        node += [_select(self.is_first, start), _select(self.is_last, end)]
        edge: list[Value] = []
        for term in self.chain.terms:
            if term.kind != "edge":
                scores, where = self._scores(term), at[term.kind]
                node.append(scores if where is None else _select(where, scores))
            elif term.kernel is not None:
                edge.append(self._scores(term).node("Expand", self._shape(self.n_labels**2)))
        total = graph.add("Sum", *node)
        if not edge:
            return total, None
        steps = graph.add("Sum", self.chain.tied_edge.reshape(1, -1), *edge)
        steps = self.is_first.unsqueeze(1).node("Where", 0.0, steps)
        return total, steps.node("Reshape", graph.whole(-1, self.n_labels, self.n_labels))

    def _shape(self, width: int) -> Value:
        return self.length.node("Concat", self.graph.whole(width), axis=0)

    def _scores(self, term: Term) -> Value:
        if term.kernel is None:
            return self.graph.constant(dense_matrix(term.coefficients))
        rows = self.rows.join_neighbours(term.window, self.length)
        features = term.kernel.feature_map if term.pivots is None else term.kernel.towards(term.pivots)
        try:
            return cast("GraphRows | Value", features(rows)) @ dense_matrix(term.coefficients)
        except TypeError as error:
            raise ServingError(
                f"the kernel {term.kernel.kind!r} has no form in ONNX: its formula is not made of the operations in "
                f"kernels/arrays.py ({error})"
            ) from error

    def build(self, outputs: Sequence[str], jointly: bool) -> bytes:
        """Return the content of the ONNX file."""
        self.node, self.edge = self._compute_potentials()
        found: dict[str, Value] = {}
        if set(outputs) != {"labels"} or not jointly:
            found["marginals"], found["log_partition"] = self._add_marginals()
        if "labels" in outputs:
            found["labels"] = self._add_decoding() if jointly else found["marginals"].argmax(1)
        for name in outputs:
            self.graph.name_output(found[name], name)
        return self._build_model(outputs, jointly)

    # ---- passes

    def _add_body(self) -> tuple[Graph, Value, list[tuple[Value, Value]], Value]:
        """Return the loop body over positions, its scores, its rows and the scores of steps."""
        body = Graph(self.graph)
        node, step = body.value("node"), body.value("step")
        if self.edge is not None:
            return body, node, [(self.node, node), (self.edge, step)], step
        # Nothing steps into the first position.
        return body, node, [(self.node, node), (self.is_first, step)], step.node("Where", 0.0, self.chain.tied_edge)

    def _initial_scores(self) -> Value:
        """Return the scores before the first position: a single label with score zero."""
        return self.graph.constant(np.where(np.arange(self.n_labels) == 0, 0.0, -np.inf))

    def _add_decoding(self) -> Value:
        graph = self.graph
        body, node, rows, steps = self._add_body()
        before = body.value("before")
        candidates = before.unsqueeze(1) + steps
        best = candidates.max(0) + node
        after = best - best.max(0, keepdims=True)
        last, pointers = graph.scan(body, [(self._initial_scores(), before, after)], rows, [candidates.argmax(0)])
        back = Graph(graph)
        label, pointer = back.value("label"), back.value("pointer")
        states = [(last.argmax(0), label, pointer.node("Gather", label))]
        return graph.scan(back, states, [(pointers, pointer)], [label.node("Identity")], backward=True)[1]

    def _add_marginals(self) -> tuple[Value, Value]:
        body, node, rows, steps = self._add_body()
        before = body.value("before")
        scores = log_sum_exp(before.unsqueeze(1) + steps, 0) + node
        peak = scores.max(0, keepdims=True)
        after = scores - peak
        states = [(self._initial_scores(), before, after)]
        last, log_alpha, peaks = self.graph.scan(body, states, rows, [after.node("Identity"), peak])
        marginals = (log_alpha + self._add_backward()).node("Softmax", axis=1)
        return marginals, peaks.sum() + np.log(np.exp(last).sum())

    def _add_backward(self) -> Value:
        body, node, rows, steps = self._add_body()
        following = body.value("following")
        scores = log_sum_exp(steps + (following + node), 1)
        before = scores - scores.max(0, keepdims=True)
        states = [(self.graph.constant(np.zeros(self.n_labels)), following, before)]
        return self.graph.scan(body, states, rows, [following.node("Identity")], backward=True)[1]

    # ---- the file

    def _build_model(self, outputs: Sequence[str], jointly: bool) -> bytes:
        from onnx import TensorProto, helper

        inputs, info = self.chain.inputs, helper.make_tensor_value_info
        if inputs.sparse:
            inputs_of_graph = [
                info("indptr", TensorProto.INT64, ["positions_and_one"]),
                info("indices", TensorProto.INT64, ["entries"]),
                info("values", TensorProto.DOUBLE, ["entries"]),
            ]
        else:
            inputs_of_graph = [info("inputs", TensorProto.DOUBLE, ["positions", inputs.n_features])]
        kinds: dict[str, tuple[int, list[str | int | None]]] = {
            "labels": (TensorProto.INT64, ["positions"]),
            "marginals": (TensorProto.DOUBLE, ["positions", self.n_labels]),
            "log_partition": (TensorProto.DOUBLE, []),
        }
        answers = [info(name, *kinds[name]) for name in outputs]
        graph = helper.make_graph(self.graph.nodes, "chain", inputs_of_graph, answers, self.graph.initializers)
        opsets = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, producer_name="kernelfields", opset_imports=opsets, ir_version=IR_VERSION)
        helper.set_model_props(model, self._list_notes(jointly))
        return model.SerializeToString()

    def _list_notes(self, jointly: bool) -> dict[str, str]:
        inputs = self.chain.inputs
        notes: dict[str, object] = {
            "classes": self.chain.classes_.tolist(),
            "decode": "viterbi" if jointly else "posterior",
            "n_features": inputs.n_features,
            "feature_names": None if inputs.names is None else list(inputs.names),
        }
        return {name: json.dumps(value) for name, value in notes.items() if value is not None}


def _select(flags: Value, scores: Value) -> Value:
    """Return scores at masked positions, zero elsewhere."""
    return flags.unsqueeze(1).node("Where", scores, 0.0)
