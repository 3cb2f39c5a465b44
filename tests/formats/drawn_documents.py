"""Documents drawn at random, with all that formats may hold or lose, for the tests in this folder."""

from __future__ import annotations

import numpy as np

from kernelfields.formats import Document, LabelledSpan, Labelling, list_labels, tokenize
from kernelfields.formats.annotated_texts import NO_SCHEME

WORDS = ["Anna", "Ben's", "well-known", "3.14", "Zürich", "東京", "a", "(", ",", "#", "नमस्ते", "😀", "O", "x_y", '"']
LABELS = ["PER", "ORG", "LOC-2", "I"]


def draw_text(random, lines=True):
    parts = []
    for _ in range(random.integers(3, 15)):
        parts += [str(random.choice(WORDS)), str(random.choice([" ", " ", " ", "  ", "\n"] if lines else [" "]))]
    return "".join(parts).strip()


def draw_spans(random, tokens, overlap=False, **settings):
    """Spans of whole words; without overlap they often touch."""
    spans, position = [], 0
    while position < len(tokens):
        length = int(random.integers(1, 4))
        if random.random() < 0.6 and position + length <= len(tokens):
            begin, end = tokens[position][0], tokens[position + length - 1][1]
            spans.append(LabelledSpan(str(random.choice(LABELS)), begin, end, **settings))
            if overlap and random.random() < 0.5:
                spans.append(LabelledSpan("NESTED", begin, tokens[position][1], **settings))
        position += length
    return spans


def draw_documents(seed, n_documents=9, *, overlap=False, annotators=1, predicted=False, partial=False, plain=False):
    """Texts of many kinds, with spans or labels of tokens; ``plain`` has nothing that any format of texts loses."""
    random = np.random.default_rng(seed)
    documents = []
    for number in range(n_documents):
        text = draw_text(random)
        tokens = list(tokenize(text))
        scheme = str(random.choice(["bio", "iob1", "bioes", "bilou", NO_SCHEME]))
        by_token = number % 3 == 1 and not overlap
        document = Document(
            text,
            tokens if by_token or number % 3 == 2 else None,
            id=[None, f"document-{number + 1:04d} b", f"document-{number + 1:04d}/a:b"][number % 3],
            metadata={"source": "drawn", "number": number, "nested": {"a": [1, None]}, "label": "x"}
            if number % 2
            else {},
            scheme=scheme if by_token else "bio",
        )
        for annotator in range(annotators):
            chance = float(random.random()) if predicted and annotator == annotators - 1 else None
            settings = {"probability": chance} if not by_token else {}
            spans = draw_spans(random, tokens, overlap, **settings)
            own = Labelling(spans, predicted=chance is not None, annotator="" if plain else f"annotator {annotator}")
            if by_token:
                labels = list_labels(document, own)
                if scheme == NO_SCHEME:
                    labels = [str(random.choice(LABELS)) for _ in tokens]
                if partial:
                    choices = [None, frozenset(LABELS[:2]), {"PER": 0.5, "ORG": 0.25}]
                    labels = [choices[random.integers(3)] if random.random() < 0.3 else one for one in labels]
                own = Labelling(labels=labels, annotator=own.annotator)
            document.labellings.append(own)
        documents.append(document)
    return documents


def draw_time_lines(seed, n_documents=6, *, annotators=2, overlap=False, predicted=False):
    """Time lines with tiers of intervals that touch or leave gaps, in whole milliseconds."""
    random = np.random.default_rng(seed)
    documents = []
    for number in range(n_documents):
        bounds = np.sort(random.choice(5000, size=9, replace=False)) / 1000
        document = Document(duration=(0.0, 5.0), id=f"film {number}", metadata={"speaker": "Zoë"} if number % 2 else {})
        for annotator in range(annotators):
            kept = [pair for pair in zip(bounds.tolist(), bounds[1:].tolist(), strict=False) if random.random() < 0.6]
            chance = 0.25 if predicted and annotator else None
            spans = [LabelledSpan(str(random.choice(['nod "yes"', "O", "wave\nhand"])), *pair, chance) for pair in kept]
            if overlap and spans:
                spans.append(LabelledSpan("long", 0.0, 5.0))
            document.labellings.append(Labelling(spans, annotator=f"tier {annotator}", predicted=chance is not None))
        documents.append(document)
    return documents
