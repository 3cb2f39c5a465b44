"""Documents of spaCy: DocBin files (.spacy), behind the extra ``spacy``.

    doc.ents            spans that do not overlap, and labels of tokens that follow a scheme; unknown ones are missing
    token.tag_          labels of tokens that follow no scheme
    doc.spans["sc"]     spans that overlap or nest, or have probabilities, which are ``attrs["scores"]``
    doc.user_data       under "kernelfields", as JSON, content that a Doc does not support

Tokens of spaces are left out. Words are cut at span boundaries inside of tokens.

Raises ImportError with the name of the extra if spaCy is not installed; SequenceFileError for a file that is no DocBin.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from kernelfields.data.text_files import (
    PIECE,
    PathName,
    SequenceFileError,
    check_unpacked,
    input_name,
    open_output,
    read_content,
)
from kernelfields.formats.annotated_texts import (
    NO_SCHEME,
    Document,
    LabelledSpan,
    Labelling,
    collect_extras,
    document_name,
    find_overlaps,
    list_spans,
    replace_spans_by_labels,
    restore_extras,
    tokens_or_default,
)
from kernelfields.formats.own_parts import OWN, parse_own_parts

if TYPE_CHECKING:
    from spacy.tokens import Doc
    from spacy.vocab import Vocab

#: Where spaCy keeps spans that may overlap.
GROUP = "sc"


def _import_spacy() -> Any:
    """Import spaCy, or raise ImportError with the command to install it."""
    try:
        import spacy.tokens
        import spacy.vocab
    except ImportError as error:
        raise ImportError("files of spaCy need the package spacy: pip install 'kernelfields[spacy]'") from error
    return spacy


def read_spacy(path: PathName) -> list[Document]:
    """Read the documents of a DocBin."""
    spacy = _import_spacy()
    content = read_content(path)
    _check_size(content, path)
    try:
        docs = list(spacy.tokens.DocBin().from_bytes(content).get_docs(spacy.vocab.Vocab()))
        names = [f"{input_name(path)}, document {number}" for number, _ in enumerate(docs, start=1)]
        return [convert_doc(doc, name) for doc, name in zip(docs, names, strict=True)]
    except SequenceFileError:
        raise
    except Exception as error:  # msgpack, zlib and spaCy each have errors of their own for damage
        raise SequenceFileError(f"{input_name(path)} is not a DocBin of spaCy ({type(error).__name__})") from error


def _check_size(content: bytes, path: PathName) -> None:
    """Raise SequenceFileError if a DocBin decompresses to far more than its own size."""
    unpack, size, left = zlib.decompressobj(), 0, content
    while left and not unpack.eof:
        try:
            size += len(unpack.decompress(left, PIECE))
        except zlib.error:
            return
        left = unpack.unconsumed_tail
        check_unpacked(size, len(content), path, "write its documents to several files")


def write_spacy(path: PathName, documents: Sequence[Document]) -> None:
    """Write the documents as a DocBin."""
    spacy = _import_spacy()
    vocab = spacy.vocab.Vocab()
    docs = []
    for number, document in enumerate(documents, start=1):
        try:
            docs.append(convert_document(document, vocab))
        except (ValueError, TypeError) as error:
            reason = " ".join(str(error).split())
            raise ValueError(
                f"{input_name(path)}, {document_name(document, number)}: spaCy refuses it: {reason}"
            ) from error
    content = spacy.tokens.DocBin(docs=docs, store_user_data=True).to_bytes()
    with open_output(path) as file:
        file.write(content)


def convert_doc(doc: Doc, name: str = "the Doc") -> Document:
    """Convert a Doc of spaCy to a document with its tokens except spaces, and its entities, spans or tags."""
    words = [token for token in doc if not token.text.isspace()]
    tokens: list[tuple[float, float]] = [(token.idx, token.idx + len(token)) for token in words]
    own = parse_own_parts(doc.user_data.get(OWN, "{}"), name)
    scheme, labellings = "bio", []
    unknown = {index for index, token in enumerate(words) if token.ent_iob == 0}
    if GROUP in doc.spans:
        group = doc.spans[GROUP]
        scores = group.attrs.get("scores", [None] * len(group))
        if len(scores) != len(group):
            raise SequenceFileError(f"{name}: {len(scores)} scores for {len(group)} spans")
        found = [LabelledSpan(s.label_, s.start_char, s.end_char, p) for s, p in zip(group, scores, strict=True)]
        labellings = [Labelling(found)]
    elif len(unknown) < len(words):
        labellings = [Labelling([LabelledSpan(ent.label_, ent.start_char, ent.end_char) for ent in doc.ents])]
    elif any(token.tag_ for token in words):
        labellings, scheme = [Labelling(labels=[token.tag_ or None for token in words])], NO_SCHEME
    document = restore_extras(Document(doc.text, tokens, labellings, scheme=scheme), own)
    if labellings and unknown and scheme != NO_SCHEME and GROUP not in doc.spans:
        document = replace_spans_by_labels(document)
        for labelling in document.labellings:
            known = [None if index in unknown else label for index, label in enumerate(labelling.labels or ())]
            labelling.labels = known if labelling.labels is not None else None
    if "tokens" in own and own["tokens"] is None:
        document = replace(document, tokens=None)
    return document


def convert_document(document: Document, vocab: Vocab) -> Doc:
    """Convert a document to a Doc of spaCy."""
    spacy = _import_spacy()
    labelling = document.labellings[0] if document.labellings else None
    spans = [] if labelling is None else list_spans(document, labelling, strict=False)
    text, cuts = document.text, {0, len(document.text)}
    for begin, end in [*tokens_or_default(document), *((span.begin, span.end) for span in spans)]:
        cuts |= {int(begin), int(end)}
    words: list[str] = []
    spaces: list[bool] = []
    for begin, end in pairwise(sorted(cuts)):
        piece = text[begin:end]
        word = piece.strip()
        before = piece[: piece.index(word)] if word else piece
        _add_space(words, spaces, before)
        if word:
            words.append(word)
            spaces.append(False)
            _add_space(words, spaces, piece[len(before) + len(word) :])
    doc = spacy.tokens.Doc(vocab, words=words, spaces=spaces)
    if labelling is not None and labelling.labels is not None and document.scheme == NO_SCHEME:
        starts = {token.idx: token for token in doc}
        for (begin, _), label in zip(tokens_or_default(document), labelling.labels, strict=True):
            starts[int(begin)].tag_ = label if isinstance(label, str) else ""
    elif any(find_overlaps(spans)) or any(span.probability is not None for span in spans):
        members = [doc.char_span(int(span.begin), int(span.end), label=span.label) for span in spans]
        scores = [span.probability for span in spans]
        doc.spans[GROUP] = spacy.tokens.SpanGroup(doc, name=GROUP, attrs={"scores": scores}, spans=members)
    elif labelling is not None:
        ents = [doc.char_span(int(span.begin), int(span.end), label=span.label) for span in spans]
        doc.set_ents(ents, missing=_find_unknown_tokens(document, labelling, doc), default="outside")
    found = collect_extras(document, "spacy", held={"text", "made_ids"})
    if found.get("tokens") == [[token.idx, token.idx + len(token)] for token in doc if not token.text.isspace()]:
        del found["tokens"]
    if document.tokens is None:
        found["tokens"] = None
    doc.user_data[OWN] = json.dumps(found, ensure_ascii=False)
    return doc


def _add_space(words: list[str], spaces: list[bool], text: str) -> None:
    """Add spaces behind the last word: one belongs to the word, the others form a token."""
    if text[:1] == " " and words and not spaces[-1] and not words[-1].isspace():
        spaces[-1], text = True, text[1:]
    if text:
        words.append(text)
        spaces.append(False)


def _find_unknown_tokens(document: Document, labelling: Labelling, doc: Doc) -> list[Any]:
    """Return the numbers of spaCy's tokens with unknown labels."""
    starts = {
        int(begin)
        for (begin, _), label in zip(tokens_or_default(document), labelling.labels or (), strict=False)
        if label is None
    }
    return [doc[token.i : token.i + 1] for token in doc if token.idx in starts]
