"""Annotated documents in memory: the one form that the readers and writers of all formats share.

    Document     a text, or a time line with its duration; tokens with offsets; labellings; id and metadata
    Labelling    the labels of one annotator, tier or model: spans, or a label for each token
    LabelledSpan begin .. end in characters (text[begin:end]) or in seconds, with its label

Labels of tokens may be partial: a label, None if unknown, a set of possible labels, or a dict of weights.
``Document.scheme`` is how labels of tokens write spans: "bio", "iob1", "bioes", "bilou" (data/constraints.py), or
"none", if every labelled token is a span of its own. ``list_spans`` and ``list_labels`` convert between both
forms.

Cost: linear in tokens and spans. Raises ValueError, with document and span, for offsets outside of the
text, spans that cut a word, and overlapping spans if each token has one label.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Protocol, TypeAlias

from kernelfields.data.constraints import find_scheme, guess_scheme
from kernelfields.data.spans import spans_of_scheme
from kernelfields.formats.label_marks import check_label
from kernelfields.formats.tokens import Tokenizer, check_words, tokenize

#: What is known of the label of a token.
TokenLabel: TypeAlias = str | frozenset[str] | Mapping[str, float] | None
#: The scheme of labels that are spans of one token each.
NO_SCHEME = "none"
OUTSIDE = "O"
# Upper bound on the seconds of a time line.
_LATEST = 1e15


@dataclass(frozen=True)
class LabelledSpan:
    """A labelled part of a text or time line.

    Parameters
    ----------
    label : str
        The label.
    begin : float
        The first character; in time lines, seconds.
    end : float
        The character after the last.
    probability : float, optional
        The probability of a span that was predicted.
    id : str, optional
        The id that relations of other tools refer to.
    fragments : tuple of pairs, default ()
        The (begin, end) parts of a span with gaps.

    Examples
    --------
    >>> from kernelfields.formats import LabelledSpan
    >>> LabelledSpan("PER", 0, 3).label
    'PER'
    """

    label: str
    begin: float
    end: float
    probability: float | None = None
    id: str | None = None
    fragments: tuple[tuple[int, int], ...] = ()

    def __str__(self) -> str:
        """Return the label with its begin and end."""
        return f"{self.label!r} [{self.begin}, {self.end}]"


@dataclass
class Labelling:
    """The labels of one annotator or model.

    Parameters
    ----------
    spans : list of LabelledSpan, optional
        Labelled parts.
    labels : list, optional
        A label for each token, in place of spans; None if it is not known.
    annotator : str, default ""
        The name of the source.
    predicted : bool, default False
        Whether a model made the labels.
    metadata : dict, optional
        What else is said of them.

    Examples
    --------
    >>> from kernelfields.formats import Labelling, LabelledSpan
    >>> Labelling(spans=[LabelledSpan("PER", 0, 3)], annotator="kim").is_plain
    False
    """

    spans: list[LabelledSpan] | None = None
    labels: list[TokenLabel] | None = None
    annotator: str = ""
    predicted: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.spans is None) == (self.labels is None):
            raise ValueError("a labelling holds either spans or labels of tokens")
        if self.spans is not None:
            self.spans = sorted(self.spans, key=lambda span: (span.begin, span.end, span.label))

    @property
    def is_plain(self) -> bool:
        """Whether the labelling has labels only, without name, metadata or a mark of predictions."""
        return not (self.annotator or self.predicted or self.metadata)


@dataclass
class Document:
    """A text or a time line with its labellings.

    Parameters
    ----------
    text : str, default ""
        The text.
    tokens : list of pairs, optional
        The (begin, end) of each token, in the order of the text; None if it was not cut into words.
    labellings : list of Labelling, optional
        The labels of each source.
    id : str, optional
        The id of the document.
    metadata : dict, optional
        What else is said of it.
    scheme : str, default "bio"
        The scheme of labels of tokens.
    duration : tuple of float, optional
        The (begin, end) of a time line in seconds, which has no text.
    kept : dict, optional
        What belongs to one format alone, by name, so that it can be written there again.

    See Also
    --------
    read_documents : Reads them from a file.

    Examples
    --------
    >>> from kernelfields.formats import Document, LabelledSpan, Labelling
    >>> document = Document("Ann lives in Oslo", labellings=[Labelling([LabelledSpan("LOC", 13, 17)])])
    >>> document.words
    ['Ann', 'lives', 'in', 'Oslo']
    """

    text: str = ""
    tokens: list[tuple[float, float]] | None = None
    labellings: list[Labelling] = field(default_factory=list)
    id: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    scheme: str = "bio"
    duration: tuple[float, float] | None = None
    kept: dict[str, Any] = field(default_factory=dict, compare=False)

    @property
    def words(self) -> list[str]:
        """The words of the text, from its tokens or else the default tokenizer."""
        return [self.text[int(begin) : int(end)] for begin, end in tokens_or_default(self)]

    def add_prediction(self, entities: Iterable[Entity], annotator: str = "kernelfields") -> Document:
        """Return the document with predicted entities as an additional labelling.

        Parameters
        ----------
        entities : list of Entity
            What ``predict_entities`` returned for the words of the document.
        annotator : str, default "kernelfields"
            The name of the labelling.

        Returns
        -------
        Document
            The document with the labelling.
        """
        tokens = tokens_or_default(self)
        found = [
            LabelledSpan(
                str(entity.label), tokens[entity.begin][0], tokens[entity.end - 1][1], float(entity.probability)
            )
            for entity in entities
        ]
        return replace(self, labellings=[*self.labellings, Labelling(found, annotator=annotator, predicted=True)])


class Entity(Protocol):
    """The attributes of an entity of ``predict_entities``."""

    label: Any
    begin: int
    end: int
    probability: float


def document_name(document: Document, number: int) -> str:
    """Return the name of a document in messages, from its number, counted from 1, and its id."""
    return f"document {number}" + (f" ({document.id})" if document.id is not None else "")


def tokens_or_default(document: Document, tokenizer: Tokenizer | None = None) -> list[tuple[float, float]]:
    """Return the tokens of a document or, if it has none, those of ``tokenizer``."""
    if document.tokens is not None:
        return document.tokens
    if document.duration is not None:
        raise ValueError("a time line has no words: set tokens, the (begin, end) of its frames in seconds")
    return list(tokenize(document.text, tokenizer))


def cut_tokens_at_spans(document: Document) -> list[tuple[int, int]]:
    """Return the tokens of a text, cut at span boundaries inside of tokens."""
    labelling = choose_labelling(document)
    edges = {int(edge) for span in (labelling and labelling.spans) or () for edge in (span.begin, span.end)}
    found: list[tuple[int, int]] = []
    for begin, end in tokens_or_default(document):
        places = [int(begin), *sorted(edge for edge in edges if begin < edge < end), int(end)]
        found += pairwise(places)
    return found


def check_document(document: Document, name: str) -> None:
    """Raise ValueError if offsets do not fit the text, the tokens or each other."""
    first, last = (0, len(document.text)) if document.duration is None else document.duration
    unit = "characters" if document.duration is None else "seconds"
    if not -_LATEST < first <= last < _LATEST:
        raise ValueError(
            f"{name}: its time line goes from {first!r:.20} to {last!r:.20}, expected finite seconds in order"
        )
    if document.duration is None:
        check_words(document.text, document.tokens, name)
    for before, after in pairwise(document.tokens or []):
        if before[0] > after[0] or before[1] > after[1]:
            raise ValueError(f"{name}: the token {after} comes after {before}; tokens stand in the order of the text")
    for begin, end in document.tokens or ():
        if not first <= begin < end <= last:
            raise ValueError(f"{name}: the token ({begin}, {end}) is not within {first} .. {last} {unit}")
    if len({labelling.spans is None for labelling in document.labellings}) > 1:
        raise ValueError(f"{name}: its labellings must all hold spans, or all hold labels of tokens")
    for labelling in document.labellings:
        for span in labelling.spans or ():
            point = document.duration is not None and span.begin == span.end
            if not span.label:
                raise ValueError(f"{name}: the span {span} has an empty label")
            check_label(span.label, name)
            if not (first <= span.begin < span.end <= last or (point and first <= span.begin <= last)):
                raise ValueError(f"{name}: the span {span} is not within {first} .. {last} {unit}")
        n_tokens = 0 if document.tokens is None else len(document.tokens)
        if labelling.labels is not None and len(labelling.labels) != n_tokens:
            raise ValueError(f"{name}: {len(labelling.labels)} labels for {n_tokens} tokens")
        for label in labelling.labels or ():
            if isinstance(label, str):
                check_label(label, name)


# ---- from labels of tokens to spans, and back


def detect_scheme(sequences: Sequence[Sequence[TokenLabel]]) -> str:
    """Return the scheme of entity labels: "bio", "iob1", another one, or "none"."""
    seen = {
        one for labels in sequences for label in set(map(_to_hashable, labels)) for one in _list_possible_labels(label)
    }
    scheme = guess_scheme(seen)
    if scheme is None:
        return NO_SCHEME
    if scheme.name != "bio":
        return scheme.name
    begins = {"B": [False, False], "I": [False, False]}  # by tag: whether it has followed another type, and its own
    for labels in sequences:
        for before, label in pairwise([None, *labels]):
            if isinstance(label, str) and label != OUTSIDE:
                follows = isinstance(before, str) and before != OUTSIDE and before[1:] == label[1:]
                begins[label[0]][follows] = True
    return "iob1" if begins["I"][False] and not begins["B"][False] else "bio"


def _to_hashable(label: TokenLabel) -> str | frozenset[str] | None:
    """Convert a label of a token to a hashable value."""
    return frozenset(label) if isinstance(label, Mapping) else label


def _list_possible_labels(label: TokenLabel) -> Iterable[str]:
    """List the possible labels of a token."""
    return (label,) if isinstance(label, str) else () if label is None else label


def list_spans(
    document: Document, labelling: Labelling, strict: bool = True, name: str = "the document"
) -> list[LabelledSpan]:
    """Return the spans of a labelling, computed from labels of tokens if necessary.

    Parameters
    ----------
    document : Document
        The document.
    labelling : Labelling
        One of its labellings.
    strict : bool, default True
        Whether to raise ValueError if the labels cannot be had back from the spans; else labels that are not known are
        outside of spans.
    name : str, default "the document"
        What messages call the document.

    Returns
    -------
    list of LabelledSpan
        The spans.

    See Also
    --------
    list_labels : The other way round.

    Examples
    --------
    >>> from kernelfields.formats import Document, Labelling, list_spans
    >>> document = Document("Ann lives in Oslo", labellings=[Labelling(labels=["B-PER", "O", "O", "B-LOC"])])
    >>> [(span.label, span.begin, span.end) for span in list_spans(document, document.labellings[0])]
    [('PER', 0, 3), ('LOC', 13, 17)]
    """
    if labelling.spans is not None:
        return labelling.spans
    labels, tokens = labelling.labels or [], tokens_or_default(document)
    if document.scheme == NO_SCHEME:
        found = [LabelledSpan(one, *token) for one, token in zip(labels, tokens, strict=True) if isinstance(one, str)]
    else:
        plain = [label if isinstance(label, str) else OUTSIDE for label in labels]
        found = [
            LabelledSpan(kind, tokens[start][0], tokens[stop - 1][1])
            for kind, start, stop in spans_of_scheme(plain, find_scheme(document.scheme))
        ]
    if strict and (back := _label_tokens(document, found, name)) != labels:
        at = next(index for index, pair in enumerate(zip(labels, back, strict=True)) if pair[0] != pair[1])
        raise ValueError(
            f"{name}: {_describe_loss(labels[at], document.scheme)} cannot be written as spans: token {at + 1}"
        )
    return found


def _describe_loss(label: TokenLabel, scheme: str) -> str:
    """Return a message about a label that spans cannot represent."""
    if label is None:
        return "a label that is not known"
    if not isinstance(label, str):
        return "a set of labels" if isinstance(label, frozenset) else "weights of labels"
    return f"the label {label!r}, which breaks the scheme {scheme!r} or begins inside of a word,"


def list_labels(document: Document, labelling: Labelling | None = None, name: str = "the document") -> list[TokenLabel]:
    """Return the labels of tokens in the scheme of the document, computed from spans if necessary.

    Parameters
    ----------
    document : Document
        The document.
    labelling : Labelling, optional
        One of its labellings; by default that of the first annotator, or of the first model if there are none.
    name : str, default "the document"
        What messages call the document.

    Returns
    -------
    list
        A label for each token; None for each token of a document without any. A frame of a time line has the label of
        the span that its middle lies in.

    See Also
    --------
    list_spans : The other way round.

    Examples
    --------
    >>> from kernelfields.formats import Document, LabelledSpan, Labelling, list_labels
    >>> document = Document("Ann lives in Oslo", labellings=[Labelling([LabelledSpan("LOC", 13, 17)])])
    >>> list_labels(document)
    ['O', 'O', 'O', 'B-LOC']
    """
    labelling = choose_labelling(document) if labelling is None else labelling
    if labelling is None:
        return [None] * len(tokens_or_default(document))
    return labelling.labels if labelling.labels is not None else _label_tokens(document, labelling.spans or [], name)


def choose_labelling(document: Document) -> Labelling | None:
    """Return the first labelling by an annotator, else the first by a model, else None."""
    return min(document.labellings, key=lambda labelling: labelling.predicted, default=None)


def to_sequences(documents: Sequence[Document]) -> tuple[list[list[str]], list[list[TokenLabel]]]:
    """Convert documents to words X and labels y for a field of words.

    Parameters
    ----------
    documents : list of Document
        The documents.

    Returns
    -------
    X : list of list of str
        The words of each document.
    y : list of list
        Their labels; None if a label is not known.

    Examples
    --------
    >>> from kernelfields.formats import Document, LabelledSpan, Labelling, to_sequences
    >>> document = Document("Ann lives in Oslo", labellings=[Labelling([LabelledSpan("LOC", 13, 17)])])
    >>> to_sequences([document])
    ([['Ann', 'lives', 'in', 'Oslo']], [['O', 'O', 'O', 'B-LOC']])
    """
    named = [(document, document_name(document, number)) for number, document in enumerate(documents, start=1)]
    return [document.words for document in documents], [list_labels(document, name=name) for document, name in named]


def _label_tokens(document: Document, spans: Sequence[LabelledSpan], name: str) -> list[TokenLabel]:
    """Convert spans to labels of tokens."""
    tokens = tokens_or_default(document)
    labels: list[TokenLabel] = [None if document.scheme == NO_SCHEME else OUTSIDE] * len(tokens)
    taken: list[LabelledSpan | None] = [None] * len(tokens)
    find = make_token_finder(document)
    for span in spans:
        start, stop, problem = find(span)
        if problem:
            raise ValueError(f"{name}: the span {span} {problem}")
        for index in range(start, stop):
            if (other := taken[index]) is not None:
                raise ValueError(f"{name}: the spans {other} and {span} overlap; a token has one label")
            taken[index] = span
        before = labels[start - 1] if start else None
        labels[start:stop] = _list_scheme_labels(span.label, stop - start, document.scheme, before)
    return labels


def _list_scheme_labels(kind: str, length: int, scheme: str, before: TokenLabel) -> list[str]:
    """Return the labels of the tokens of one span; ``before`` is the label of the preceding token."""
    if scheme == NO_SCHEME:
        return [kind] * length
    tags = find_scheme(scheme).span_tags(length, touching=before in (f"B-{kind}", f"I-{kind}"))
    return [tag if kind == "_" else f"{tag}-{kind}" for tag in tags]


def make_token_finder(document: Document) -> Callable[[LabelledSpan], tuple[int, int, str]]:
    """Return a function that finds the first token of a span, its end, and the error in its offsets.

    The tokens are those that the span touches; of a time line, the frames whose middle lies in it.
    """
    tokens = tokens_or_default(document)
    begins, ends = [token[0] for token in tokens], [token[1] for token in tokens]
    middles = [(begin + end) / 2 for begin, end in tokens]

    def find(span: LabelledSpan) -> tuple[int, int, str]:
        if document.duration is not None:
            return bisect_left(middles, span.begin), bisect_left(middles, span.end), ""
        start, stop = bisect_right(ends, span.begin), bisect_left(begins, span.end)
        if start >= stop:
            return start, start, "holds no word"
        for index, outer in ((start, begins[start] < span.begin), (stop - 1, ends[stop - 1] > span.end)):
            if outer:
                begin, end = tokens[index]
                return start, stop, f"cuts the word {document.text[int(begin) : int(end)]!r} [{begin}, {end}]"
        outside = begins[start] != span.begin or ends[stop - 1] != span.end
        return start, stop, "begins or ends outside of words" if outside else ""

    return find


def find_overlaps(spans: Sequence[LabelledSpan]) -> Iterator[tuple[LabelledSpan, LabelledSpan]]:
    """Yield pairs of overlapping or nested spans from a sorted list."""
    longest: LabelledSpan | None = None
    for span in spans:
        if longest is not None and span.begin < longest.end:
            yield longest, span
        if longest is None or span.end > longest.end:
            longest = span


# ---- what a format has no place for, as one JSON object


def collect_extras(document: Document, own: str, *, held: Iterable[str], as_labels: bool = False) -> dict[str, Any]:
    """Collect the parts of a document that the format ``own`` does not support, as plain values.

    ``held`` names what it holds itself: "id", "metadata", "text", "tokens", "duration", "labelling" (names and metadata
    of labellings), "unlabelled", "made_ids" (where spans need no ids); ``as_labels``: it writes labels of tokens.
    """
    labellings, tokens = document.labellings, document.tokens
    kept = {name: value for name, value in document.kept.items() if name != own}
    parts: dict[str, Any] = {"id": document.id, "metadata": document.metadata, "kept": kept, "text": document.text}
    parts["duration"] = None if document.duration is None else list(document.duration)
    labelled = any(labelling.labels is not None for labelling in labellings)
    if labelled or as_labels or document.scheme != "bio":
        parts["scheme"] = document.scheme
    parts["labels"] = labelled and not as_labels
    partial = [collect_partial_labels(document, labelling) for labelling in labellings]
    parts["partial"] = [] if as_labels or not any(partial) else partial
    parts["spans"] = as_labels and bool(labellings) and not labelled
    parts["unlabelled"] = not labellings
    if labellings and not labellings[0].is_plain:
        first = labellings[0]
        parts["labelling"] = {"annotator": first.annotator, "predicted": first.predicted, "metadata": first.metadata}
    spans = [span for labelling in labellings for span in labelling.spans or ()]
    parts["made_ids"] = labelled or (bool(spans) and all(span.id is None for span in spans))
    found = {name: value for name, value in parts.items() if value and name not in held}
    if "tokens" not in held and (as_labels or tokens is not None):
        found["tokens"] = None if tokens is None else [list(token) for token in tokens]
    return found


def collect_partial_labels(document: Document, labelling: Labelling) -> dict[str, list[str] | None]:
    """Collect the partial labels of tokens by token number: None, or the sorted possible labels."""
    return {
        str(index): None if label is None else sorted(label)
        for index, label in enumerate(labelling.labels or ())
        if (label is None and document.scheme != NO_SCHEME) or isinstance(label, frozenset)
    }


def restore_extras(document: Document, found: Mapping[str, Any]) -> Document:
    """Restore the parts of a document from the result of :func:`collect_extras`.

    Spans that no longer fit the tokens, because a tool has changed them, stay spans.
    """
    simple = {key: found[key] for key in ("id", "metadata", "text", "scheme") if key in found}
    simple["kept"] = {**document.kept, **found.get("kept", {})}
    # Labels that were written into rows since then need the words that they stand beside.
    bound = any(own.labels is not None for own in document.labellings) and not found.get("spans")
    if "tokens" in found and not (found["tokens"] is None and bound):
        simple["tokens"] = None if found["tokens"] is None else [tuple(token) for token in found["tokens"]]
    if "duration" in found:
        simple["duration"] = tuple(found["duration"])
    document = replace(document, **simple)
    labellings = [] if found.get("unlabelled") else document.labellings
    if found.get("made_ids"):
        labellings = [
            own if own.spans is None else replace(own, spans=[replace(span, id=None) for span in own.spans])
            for own in labellings
        ]
    if own := found.get("labelling"):
        labellings = [replace(labelling, **own) for labelling in labellings]
    document = replace(document, labellings=labellings)
    if found.get("labels"):
        return replace_spans_by_labels(document, found.get("partial", ()))
    if found.get("spans") and all(len(own.labels or ()) == len(tokens_or_default(document)) for own in labellings):
        plain = [replace(own, spans=list_spans(document, own, strict=False), labels=None) for own in labellings]
        return replace(document, labellings=plain)
    return document


def replace_spans_by_labels(document: Document, partial: Sequence[Mapping[str, Any]] = ()) -> Document:
    """Return the document with labels of tokens instead of spans, if they represent all of the spans.

    ``partial`` holds the entries of :func:`collect_partial_labels` of each labelling; entries under a span are ignored.
    """
    by_token = []
    for number, own in enumerate(document.labellings):
        spans = own.spans or []
        find = make_token_finder(document)
        if any(span.probability is not None or find(span)[2] for span in spans) or any(find_overlaps(spans)):
            return document
        labels = list(list_labels(document, own))
        entries = partial[number] if number < len(partial) else {}
        for index, entry in ((int(index), entry) for index, entry in entries.items()):
            if index < len(labels) and labels[index] in (None, OUTSIDE):
                labels[index] = None if entry is None else frozenset(entry)
        by_token.append(replace(own, spans=None, labels=labels))
    return replace(document, labellings=by_token)
