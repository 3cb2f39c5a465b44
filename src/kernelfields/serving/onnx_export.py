"""Chains as ONNX graphs: from the inputs of one sequence to its labels, marginals and log partition function.

    to_onnx(crf, "model.onnx")

Inputs: ``inputs`` (T, d) double; for models of sparse inputs, feature dicts or feature strings the parts of a CSR
matrix, ``indptr`` (T + 1,) and ``indices`` (E,) int64 and ``values`` (E,) double. Outputs: ``labels`` (T,) int64,
numbers of the classes; ``marginals`` (T, L) double; ``log_partition`` () double. Metadata, as JSON: classes,
feature_names, n_features, decode. Passes are those of passes.py, a loop over positions each:

    forward    d_t(b) = u_t(b) + op_a (d_{t-1}(a) + w_t(a, b))        op: maximum, or log of the sum of exponentials
    backward   follow the pointers, or the same from the end

with every row shifted to a maximum of zero. Kernels, scores and passes are computed in double precision.
Fails: ServingError naming what the model has that a graph of ONNX cannot express; ImportError without onnx.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from .chain_model import ChainModel, Term, chain_of, load_chain
from .onnx_kernels import block, explicit
from .onnx_nodes import OPSET, DenseView, Graph, SparseView, View
from .tensor_file import ServingError

OUTPUTS = ("labels", "marginals", "log_partition")
_LOWEST = np.finfo(np.float64).min
# What readers of ONNX from 2022 on know.
_IR_VERSION = 8


def to_onnx(
    model: Any, path: str | os.PathLike[str], *, decode: str | None = None, outputs: Sequence[str] = OUTPUTS
) -> None:
    """Write a fitted ChainCRF, a ChainModel or the model in a file as a graph of ONNX.

    Parameters
    ----------
    decode : "viterbi", "posterior" or None, as in ChainCRF.predict; None for what the model was told
    outputs : which of "labels", "marginals" and "log_partition"; what is not asked for is not computed
    """
    unknown = [name for name in outputs if name not in OUTPUTS]
    if unknown or not outputs:
        raise ValueError(f"outputs must be some of {', '.join(OUTPUTS)}, got {list(outputs)}")
    chain = _chain(model)
    if chain.inputs.dictionary is not None:
        raise ServingError("labels allowed by a LabelDictionary have no form in ONNX: use load_chain for this model")
    content = _Export(chain).finished(outputs, chain.decodes_jointly(decode))
    with open(path, "wb") as file:
        file.write(content)


def _chain(model: Any) -> ChainModel:
    if isinstance(model, ChainModel):
        return model
    if isinstance(model, str | os.PathLike):
        return load_chain(model)
    model = getattr(model, "chain_", model)  # the face of sklearn-crfsuite's CRF
    kind = str(getattr(model, "kind", type(model).__name__))
    if kind != "ChainCRF":
        raise ServingError(f"a {kind} cannot be exported to ONNX: ChainCRF alone can")
    if not hasattr(model, "field_"):
        raise ValueError("this ChainCRF is not fitted yet: call fit before it is exported")
    return chain_of(kind, model.to_document())


class _Export:
    """The graph of one chain."""

    def __init__(self, chain: ChainModel):
        self.chain, self.graph = chain, Graph()
        self.n_labels = len(chain.classes_)
        graph = self.graph
        rows = "indptr" if chain.inputs.sparse else "inputs"
        length = graph.sliced(graph.add("Shape", rows), graph.whole(0), graph.whole(1))
        #: [T] and T, the number of positions.
        self.length = graph.add("Sub", length, graph.whole(1)) if chain.inputs.sparse else length
        count = graph.add("Squeeze", self.length)
        zero, one = (graph.constant(np.int64(number), np.int64) for number in (0, 1))
        positions = graph.add("Range", zero, count, one)
        #: Which positions begin and end the sequence, (T,) of booleans.
        self.is_first = graph.add("Equal", positions, zero)
        self.is_last = graph.add("Equal", positions, graph.add("Sub", count, one))
        self.view = self._inputs()

    def _inputs(self) -> View:
        graph, inputs = self.graph, self.chain.inputs
        if inputs.sparse:
            return SparseView.of_inputs(graph, "indptr", "indices", "values", inputs.n_features, self.length)
        rows = "inputs"
        if inputs.scaling is not None:
            centre, spread = map(graph.constant, inputs.scaling)
            rows = graph.add("Div", graph.add("Sub", rows, centre), spread)
        return DenseView(graph, rows, inputs.n_features)

    def _potentials(self) -> tuple[str, str | None]:
        """Return the names of scores of labels (T, L) and of steps (T, L, L), zero into the first; None if tied."""
        graph, masks = self.graph, self.chain.masks
        at = {"node": None, "start": self.is_first, "end": self.is_last}
        zeros = graph.add("Expand", graph.constant(masks["label"][None]), self._shape(self.n_labels))
        node = [zeros, self._where(self.is_first, graph.constant(masks["start"][None]))]
        node.append(self._where(self.is_last, graph.constant(masks["end"][None])))
        edge: list[str] = []
        for term in self.chain.terms:
            if term.kind != "edge":
                scores, where = self._scores(term), at[term.kind]
                node.append(scores if where is None else self._where(where, scores))
            elif term.kernel is not None:
                edge.append(graph.add("Expand", self._scores(term), self._shape(self.n_labels**2)))
        total = graph.add("Sum", *node)
        if not edge:
            return total, None
        tied = graph.constant(self.chain.tied_edge.reshape(1, -1))
        steps = graph.add("Where", self._column(self.is_first), graph.constant(0.0), graph.add("Sum", tied, *edge))
        return total, graph.add("Reshape", steps, graph.whole(-1, self.n_labels, self.n_labels))

    def _shape(self, width: int) -> str:
        return self.graph.add("Concat", self.length, self.graph.whole(width), axis=0)

    def _column(self, flags: str) -> str:
        return self.graph.add("Unsqueeze", flags, self.graph.whole(1))

    def _where(self, flags: str, scores: str) -> str:
        """Return scores at some positions, zero elsewhere."""
        return self.graph.add("Where", self._column(flags), scores, self.graph.constant(0.0))

    def _scores(self, term: Term) -> str:
        graph = self.graph
        if term.kernel is None:
            return graph.constant(term.coefficients)
        view = self.view.windowed(term.window, self.length)
        if term.pivots is None:
            return explicit(graph, term.kernel, view, term.coefficients)
        return graph.add("MatMul", block(graph, term.kernel, view, term.pivots), graph.constant(term.coefficients))

    def finished(self, outputs: Sequence[str], jointly: bool) -> bytes:
        """Return the content of the file."""
        self.node, self.edge = self._potentials()
        found: dict[str, str] = {}
        if set(outputs) != {"labels"} or not jointly:
            found["marginals"], found["log_partition"] = self._marginals()
        if "labels" in outputs:
            chosen = self._best() if jointly else self.graph.add("ArgMax", found["marginals"], axis=1, keepdims=0)
            found["labels"] = chosen
        for name in outputs:
            self.graph.add("Identity", found[name], output=name)
        return self._model(outputs, jointly)

    # ---- passes

    def _body(self) -> tuple[Graph, str, list[tuple[str, str]], str]:
        """Return the body of a loop over positions, names in it of a row of nodes and of the steps into it."""
        body = Graph(self.graph)
        node, step = body.name("node"), body.name("step")
        if self.edge is not None:
            return body, node, [(self.node, node), (self.edge, step)], step
        # Nothing steps into the first position.
        tied, none = self.graph.constant(self.chain.tied_edge), self.graph.constant(0.0)
        return body, node, [(self.node, node), (self.is_first, step)], body.add("Where", step, none, tied)

    def _begin(self) -> str:
        """Return scores before the first position: of one label, from which nothing is added."""
        return self.graph.constant(np.where(np.arange(self.n_labels) == 0, 0.0, -np.inf))

    def _best(self) -> str:
        graph = self.graph
        body, node, rows, steps = self._body()
        before = body.name("before")
        candidates = body.add("Add", body.add("Unsqueeze", before, graph.whole(1)), steps)
        best = body.add("Add", body.add("ReduceMax", candidates, axes=[0], keepdims=0), node)
        pointers = body.add("ArgMax", candidates, axis=0, keepdims=0)
        after = body.add("Sub", best, body.add("ReduceMax", best, axes=[0], keepdims=1))
        last, all_pointers = graph.scan(body, [(self._begin(), before, after)], rows, [pointers])
        walk = Graph(graph)
        label, pointer = walk.name("label"), walk.name("pointer")
        own, previous = walk.add("Identity", label), walk.add("Gather", pointer, label)
        end = graph.add("ArgMax", last, axis=0, keepdims=0)
        return graph.scan(walk, [(end, label, previous)], [(all_pointers, pointer)], [own], backward=True)[1]

    def _marginals(self) -> tuple[str, str]:
        graph = self.graph
        body, node, rows, steps = self._body()
        before = body.name("before")
        joint = body.add("Add", body.add("Unsqueeze", before, graph.whole(1)), steps)
        scores = body.add("Add", self._log_sums(body, joint, 0), node)
        peak = body.add("ReduceMax", scores, axes=[0], keepdims=1)
        after = body.add("Sub", scores, peak)
        own = body.add("Identity", after)
        last, log_alpha, peaks = graph.scan(body, [(self._begin(), before, after)], rows, [own, peak])
        log_beta = self._backward()
        marginals = graph.add("Softmax", graph.add("Add", log_alpha, log_beta), axis=1)
        total = graph.add("Log", graph.add("ReduceSum", graph.add("Exp", last), keepdims=0))
        return marginals, graph.add("Add", graph.add("ReduceSum", peaks, keepdims=0), total)

    def _backward(self) -> str:
        graph = self.graph
        body, node, rows, steps = self._body()
        following = body.name("following")
        ahead = body.add("Add", following, node)
        scores = self._log_sums(body, body.add("Add", steps, ahead), 1)
        before = body.add("Sub", scores, body.add("ReduceMax", scores, axes=[0], keepdims=1))
        own = body.add("Identity", following)
        end = graph.constant(np.zeros(self.n_labels))
        return graph.scan(body, [(end, following, before)], rows, [own], backward=True)[1]

    def _log_sums(self, body: Graph, joint: str, axis: int) -> str:
        """Return log of the sum of exponentials of a table (L, L) along an axis; minus infinity where all are."""
        peaks = body.add("ReduceMax", joint, axes=[axis], keepdims=1)
        peaks = body.add("Max", peaks, self.graph.constant(_LOWEST))
        weights = body.add("Exp", body.add("Sub", joint, peaks))
        sums = body.add("Log", body.add("ReduceSum", weights, self.graph.whole(axis), keepdims=0))
        return body.add("Add", sums, body.add("Squeeze", peaks, self.graph.whole(axis)))

    # ---- the file

    def _model(self, outputs: Sequence[str], jointly: bool) -> bytes:
        from onnx import TensorProto, helper

        inputs, info = self.chain.inputs, helper.make_tensor_value_info
        if inputs.sparse:
            given = [
                info("indptr", TensorProto.INT64, ["positions_and_one"]),
                info("indices", TensorProto.INT64, ["entries"]),
                info("values", TensorProto.DOUBLE, ["entries"]),
            ]
        else:
            given = [info("inputs", TensorProto.DOUBLE, ["positions", inputs.n_features])]
        kinds = {
            "labels": (TensorProto.INT64, ["positions"]),
            "marginals": (TensorProto.DOUBLE, ["positions", self.n_labels]),
            "log_partition": (TensorProto.DOUBLE, []),
        }
        answers = [info(name, *kinds[name]) for name in outputs]
        graph = helper.make_graph(self.graph.nodes, "chain", given, answers, self.graph.initializers)
        opsets = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, producer_name="kernelfields", opset_imports=opsets, ir_version=_IR_VERSION)
        helper.set_model_props(model, self._notes(jointly))
        return model.SerializeToString()

    def _notes(self, jointly: bool) -> dict[str, str]:
        inputs = self.chain.inputs
        notes: dict[str, Any] = {
            "classes": self.chain.classes_.tolist(),
            "decode": "viterbi" if jointly else "posterior",
            "n_features": inputs.n_features,
            "feature_names": inputs.names,
        }
        return {name: json.dumps(value) for name, value in notes.items() if value is not None}
