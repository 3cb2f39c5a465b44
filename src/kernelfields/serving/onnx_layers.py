"""Layers of chains as ONNX graphs, alone or behind an encoder: from scores of labels to labels and probabilities.

Inputs: ``scores`` (B, T, L) float, or those of the encoder, and ``mask`` (B, T) bool, True anywhere. Outputs:
``labels`` (B, T) int64, -1 where the mask is False; ``score`` (B,) float, log p(labels | x); ``marginals`` (B, T, L)
float, zero where the mask is False. B and T may be any. A loop over positions each, whose states stay as they are where
the mask is False, so that the positions that it selects follow each other:

    forward    d_t(b) = u_t(b) + op_a (d_{t-1}(a) + w(a, b))          op: maximum, or log of the sum of exponentials
    backward   follow the pointers, or the same from the end

with every row shifted to a maximum of zero, in double precision. Raises ImportError without onnx.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from kernelfields.serving.inputs import ServingError
from kernelfields.serving.onnx_graph import IR_VERSION, OPSET, Graph, Value, log_sum_exp

#: The number that ONNX has for the type float: onnx.TensorProto.FLOAT.
_FLOAT = 1
_OUTPUTS = "labels", "score", "marginals"


class ChainLayer(NamedTuple):
    """Scores of steps (L, L), first and last labels (L,), minus infinity if forbidden, and label names."""

    steps: np.ndarray
    start: np.ndarray
    end: np.ndarray
    names: Sequence


def write_chain_layer(layer: ChainLayer, encoder: bytes | None = None) -> bytes:
    """Return an ONNX file of a layer, or of an encoder with the output ``scores`` and the layer."""
    from onnx import ModelProto, compose

    model = _Layer(layer).build()
    if encoder is not None:
        network = ModelProto.FromString(encoder)
        if "mask" in [each.name for each in network.graph.input]:
            raise ServingError("an input of the encoder is called 'mask', as that of the layer: call it otherwise")
        network.ir_version = IR_VERSION
        metadata = {entry.key: entry.value for entry in model.metadata_props}
        model = compose.merge_models(network, model, io_map=[("scores", "scores")])
        for entry in model.metadata_props:
            entry.value = metadata.get(entry.key, entry.value)
    return model.SerializeToString()


class _Layer:
    """The ONNX graph of a layer."""

    def __init__(self, layer: ChainLayer):
        self.layer, self.graph = layer, Graph(prefix="field_")
        graph, self.n_labels = self.graph, len(layer.start)
        given = graph.value("scores", "scores")
        #: Scores (T, B, L), and which positions count, (T, B, 1).
        self.scores = given.convert(np.float64).node("Transpose", perm=[1, 0, 2])
        self.on = graph.value("mask", "mask").node("Transpose", perm=[1, 0]).unsqueeze(2)
        #: [B], the number of sequences.
        self.size = given.node("Shape").part(graph.whole(0), graph.whole(1))

    def _make_zeros(self, width: int, dtype: type = np.float64) -> Value:
        """Return zeros (B, width)."""
        return self.graph.zeros(self.size.node("Concat", self.graph.whole(width), axis=0), dtype)

    def _scan_forward(self, jointly: bool) -> tuple[Value, Value, Value, Value]:
        """Return last scores (B, L), shifts (B, 1), a mask of nonempty sequences, and pointers or rows."""
        body = Graph(self.graph)
        before, total, begun = body.value("before"), body.value("total"), body.value("begun")
        scores, on = body.value("scores"), body.value("on")
        joint = before.unsqueeze(2) + self.layer.steps[None]
        reached = joint.max(1) if jointly else log_sum_exp(joint, 1)
        found = begun.node("Where", reached, self.layer.start[None]) + scores
        peak = found.max(1, keepdims=True)
        after = on.node("Where", found - peak.node("Max", np.finfo(np.float64).min), before)
        result = joint.argmax(1) if jointly else after.node("Identity")
        states = [
            (self._make_zeros(self.n_labels), before, after),
            (self._make_zeros(1), total, on.node("Where", total + peak, total)),
            (self._make_zeros(1, np.bool_), begun, begun.node("Or", on)),
        ]
        last, shifts, present, rows = self.graph.scan(body, states, [(self.scores, scores), (self.on, on)], [result])
        return last, shifts, present, rows

    def _decode(self, last: Value, pointers: Value) -> Value:
        """Return labels (T, B), -1 at padded positions."""
        body = Graph(self.graph)
        label, own, on = body.value("label"), body.value("pointers"), body.value("on")
        followed = own.node("GatherElements", label, axis=1)
        before = on.node("Where", followed, label)
        shown = on.node("Where", label, self.graph.whole(-1))
        first = last.argmax(1).unsqueeze(1)
        rows = [(pointers, own), (self.on, on)]
        return self.graph.scan(body, [(first, label, before)], rows, [shown], backward=True)[1].squeeze(2)

    def _scan_backward(self) -> Value:
        """Return the log sums over continuations of each label, (T, B, L)."""
        body = Graph(self.graph)
        ahead, scores, on = body.value("ahead"), body.value("scores"), body.value("on")
        joint = (ahead + scores).unsqueeze(1) + self.layer.steps[None]
        found = log_sum_exp(joint, 2)
        peak = found.max(1, keepdims=True).node("Max", np.finfo(np.float64).min)
        before = on.node("Where", found - peak, ahead)
        states = [(self._make_zeros(self.n_labels) + self.layer.end[None], ahead, before)]
        rows = [(self.scores, scores), (self.on, on)]
        return self.graph.scan(body, states, rows, [ahead.node("Identity")], backward=True)[1]

    def build(self) -> Any:
        """Return the ONNX model."""
        from onnx import TensorProto, helper

        end = self.layer.end[None]
        last, shifts, present, pointers = self._scan_forward(jointly=True)
        ended = last + end
        labels = self._decode(ended, pointers)
        best = shifts.squeeze(1) + ended.max(1)
        last, shifts, _, rows = self._scan_forward(jointly=False)
        total = shifts.squeeze(1) + log_sum_exp(last + end, 1)
        score = present.squeeze(1).node("Where", best - total, 0.0)
        shares = (rows + self._scan_backward()).node("Softmax", axis=2)
        marginals = self.on.node("Where", shares, 0.0)
        answers = {
            "labels": labels.node("Transpose", perm=[1, 0]),
            "score": score.node("Cast", to=_FLOAT),
            "marginals": marginals.node("Transpose", perm=[1, 0, 2]).node("Cast", to=_FLOAT),
        }
        for name in _OUTPUTS:
            self.graph.name_output(answers[name], name)
        info, batch = helper.make_tensor_value_info, ["batch", "time"]
        inputs = [
            info("scores", TensorProto.FLOAT, [*batch, self.n_labels]),
            info("mask", TensorProto.BOOL, batch),
        ]
        outputs = [
            info("labels", TensorProto.INT64, batch),
            info("score", TensorProto.FLOAT, ["batch"]),
            info("marginals", TensorProto.FLOAT, [*batch, self.n_labels]),
        ]
        graph = helper.make_graph(self.graph.nodes, "chain_layer", inputs, outputs, self.graph.initializers)
        opsets = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, producer_name="kernelfields", opset_imports=opsets, ir_version=IR_VERSION)
        helper.set_model_props(model, {"labels": json.dumps(list(self.layer.names), default=str)})
        return model
