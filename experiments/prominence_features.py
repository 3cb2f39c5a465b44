"""Features of words for prominence: what the text of a sentence says about which words are spoken with emphasis.

    sentences = english_sentences("dev")                    # or afrikaans_sentences()
    lexicon = Lexicon(training, ENGLISH, ENGLISH_ENDINGS)   # counts of the training text, and scales of columns
    X = [lexicon.describe(sentence) for sentence in sentences]      # (words, columns) each, named lexicon.names
    indicators = WordIndicators(training)                   # of words, pairs and endings, sparse

A sentence is the chain of its words that have a label. Punctuation, and the few words without a label, are
context: they show in the features of their neighbours. Columns are real-valued (frequency, predictability from the
neighbours, letters, syllables, places), brought to mean 0 and variance 1 on the training text, or binary (classes
of function words, endings, capitals, punctuation, first and last). Frequencies are those of the training text.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from benchmarks.shared_data import sequence_identifiers, token_columns
from kernelfields.numerics.windows import window_view

#: Classes of English function words; a word may be in several.
ENGLISH = {
    "article": "a an the",
    "pronoun": "i me he him she it we us they them you thee thou ye one myself himself herself itself themselves "
    "yourself ourselves",
    "possessive": "my his her its our their your thy mine hers ours theirs yours whose",
    "demonstrative": "this that these those such",
    "preposition": "of to in for on with at from by about into upon like over after before under between through "
    "against without within among toward towards during across behind beyond near along around above below "
    "beneath beside besides till until since except despite per amid amidst unto",
    "particle": "up down out off away back in on over",
    "conjunction": "and or but nor yet for so than as if because though although while whether unless when where lest",
    "auxiliary": "am is are was were be been being have has had having do does did i'm it's that's he's she's "
    "there's i've you've we've they've you're we're they're what's who's here's 'tis 'twas",
    "modal": "will would shall should can could may might must ought i'll you'll we'll he'll she'll they'll i'd "
    "you'd he'd we'd they'd let's",
    "wh": "who whom which what when where why how whose whatever whoever wherever whenever",
    "negation": "no not never nothing none nobody nowhere neither nor don't can't won't didn't isn't couldn't "
    "doesn't haven't wouldn't wasn't shouldn't hadn't ain't cannot n't aren't weren't hasn't needn't mustn't",
    "quantifier": "all some any every each both few many much more most several other another enough half whole "
    "either none less least own same",
    "degree": "very too so quite rather more most almost nearly just only even still also again now then here "
    "there well ever always already perhaps indeed however",
    "number": "two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty sixty hundred "
    "thousand million first second third",
    "speech verb": "said says asked answered replied cried exclaimed added returned",
    "light verb": "go went gone going come came coming get got make made take took see saw say know think let put "
    "give gave seemed looked look tell told",
    "interjection": "oh ah yes o well no alas",
    "title": "mr mrs miss sir lady lord dr doctor captain mademoiselle madame monsieur saint st king queen",
}
ENGLISH_ENDINGS = "ly ing ed s 's er est y tion|sion ness|ment|ity|ance|ence ous|ful|less|ive"
AFRIKAANS = {
    "article": "die 'n n",
    "pronoun": "ek jy hy sy dit ons julle hulle u my jou hom haar hul mens homself haarself jouself myself",
    "demonstrative": "hierdie daardie dié dis sulke",
    "preposition": "van in aan vir op met om na oor uit deur by tot voor teen onder bo tussen sonder tydens",
    "conjunction": "en of maar dat as want omdat wanneer terwyl indien sodat toe",
    "auxiliary": "is was wees het word kan moet sal wil sou kon moes wou mag gaan hê",
    "wh": "wat wie waar hoe hoekom waarom wanneer watter waarmee",
    "negation": "nie geen nooit niks niemand nee",
    "quantifier": "al alle alles baie elke enige ander meer meeste min paar iets eie",
    "degree": "ook so net nog nou dan daar hier te selfs baie egter weer eers eintlik altyd reeds steeds dus",
    "number": "een twee drie vier vyf ses sewe agt nege tien honderd duisend eerste tweede",
    "particle": "te om se nie",
}
AFRIKAANS_ENDINGS = "ing heid lik|like s e ig|ige er de|te tjie|ie aal|ale asie|sie"
_ENGLISH_SILENT = re.compile(r"(?<=[^aeiouyl])e$|(?<=[^aeiouydt])ed$|(?<=[^aeiouyszxcgl])es$")
_VOWELS = re.compile(r"[aeiouyáéíóúàèêëîïôöûü]+")


@dataclass(frozen=True)
class Sentence:
    """The words of a chain, what stands before and after each ("" for nothing), tags if there are any, labels."""

    words: list[str]
    before: list[str]
    after: list[str]
    tags: list[str] | None
    labels: np.ndarray
    identifier: str = ""


def english_sentences(part: str) -> list[Sentence]:
    """Return the sentences of helsinki-prosody/release, with labels 0, 1 and 2."""
    place = ("helsinki-prosody", "release", f"{part}.tsv.gz")
    rows = zip(token_columns(*place), sequence_identifiers(*place), strict=True)
    return [words_of(tokens, identifier) for tokens, identifier in rows]


def words_of(tokens: Sequence[Sequence[str]], identifier: str = "") -> Sentence:
    """Return the chain of the tokens (text, label, ...) whose label is not NA; the others become context."""
    chain: list[tuple[str, int]] = []
    gaps: list[str] = [""]
    for text, label, *_ in tokens:
        if label == "NA":
            gaps[-1] += text if text in ",.;!?'" else "_"
        else:
            chain.append((text, int(label)))
            gaps.append("")
    words, labels = [text for text, _ in chain], np.array([label for _, label in chain])
    return Sentence(words, gaps[:-1], gaps[1:], None, labels, identifier)


def afrikaans_sentences() -> list[Sentence]:
    """Return the Afrikaans utterances, with tags; the label is 1 where at least one listener heard prominence."""
    sentences = []
    for rows in token_columns("lwazi2-prominence", "afr.tsv.gz"):
        after = ["" if row[3] == "_" else row[3][:1] for row in rows]
        labels = np.array([int(row[6]) for row in rows])
        words, tags = [row[1] for row in rows], [row[2] for row in rows]
        sentences.append(Sentence(words, ["", *after[:-1]], after, tags, labels))
    return sentences


def syllables(word: str) -> int:
    """Return about how many syllables a word has: groups of vowels, without the silent e of English."""
    return max(1, len(_VOWELS.findall(_ENGLISH_SILENT.sub("", word))))


class Lexicon:
    """Counts of the training text and scales of the columns; ``describe`` turns a sentence into features."""

    def __init__(self, training: Sequence[Sentence], classes: dict[str, str], endings: str):
        self._classes = {name: frozenset(words.split()) for name, words in classes.items()}
        self._endings = [tuple(each.split("|")) for each in endings.split()]
        self._tags = sorted({tag for sentence in training for tag in sentence.tags or ()})
        texts = [[word.lower() for word in sentence.words] for sentence in training]
        self._count = Counter(word for words in texts for word in words)
        self._pairs = Counter(pair for words in texts for pair in pairwise(["<", *words, ">"]))
        self._neighbours = Counter({"<": len(texts), ">": len(texts)}) + self._count
        self._total = sum(self._count.values())
        rows = [self._rows(sentence, 1) for sentence in training]
        self.names = list(rows[0][0]) if rows else []
        table = np.array([list(row.values()) for each in rows for row in each], dtype=float)
        binary = np.all((table == 0) | (table == 1), axis=0)
        self._mean = np.where(binary, 0.0, table.mean(axis=0))
        deviation = table.std(axis=0)
        self._scale = np.where(binary | (deviation == 0), 1.0, deviation)

    def describe(self, sentence: Sentence, *, counted: bool = False) -> np.ndarray:
        """Return the features of the words, (words, columns).

        A sentence of the training text is ``counted``: it must not find itself in the counts, or its words would
        look more frequent and more predictable than those of new sentences.
        """
        table = np.array([list(row.values()) for row in self._rows(sentence, int(counted))], dtype=float)
        return (table - self._mean) / self._scale

    def _rows(self, sentence: Sentence, own: int) -> list[dict[str, float]]:
        words = [word.lower() for word in sentence.words]
        framed = ["<", *words, ">"]
        own_words, own_pairs = Counter(framed * own), Counter([*pairwise(framed)] * own)
        length = len(words)
        total = self._total - own * length
        stops = [t for t in range(length) if sentence.after[t]] + [length - 1]
        starts = [t for t in range(length) if sentence.before[t]] + [0]

        def predictability(count: int, pair: tuple[str, str], given: str) -> float:
            """Return log p(word | neighbour) by the counts of pairs, shrunk to the frequency of the word."""
            together = self._pairs[pair] - own_pairs[pair]
            alone = (count + 0.5) / (total + 1.0)
            return math.log((together + alone) / (self._neighbours[given] - own_words[given] + 1.0))

        rows = []
        for t, (raw, word) in enumerate(zip(sentence.words, words, strict=True)):
            count, n_syllables = self._count[word] - own_words[word], syllables(word)
            row: dict[str, float] = {
                "word": 1.0,
                "log frequency": math.log((count + 0.5) / (total + 1.0)),
                "unseen": count == 0,
                "seen once": count == 1,
                "given the last": predictability(count, (framed[t], word), framed[t]),
                "given the next": predictability(count, (word, framed[t + 2]), framed[t + 2]),
                "letters": len(word),
                "syllables": n_syllables,
                "one syllable": n_syllables == 1,
                "three syllables": n_syllables >= 3,
                "capital": raw[:1].isupper() and t > 0,
                "all capitals": raw.isupper() and len(raw) > 1,
                "apostrophe": "'" in raw[1:-1],
                "repeated": word in words[:t],
                "first": t == 0,
                "second": t == 1,
                "last": t == length - 1,
                "last but one": t == length - 2,
                "place": t / length,
                "log length": math.log(length),
                "words since a pause": math.log1p(t - max(place for place in starts if place <= t)),
                "words to a pause": math.log1p(min(place for place in stops if place >= t) - t),
            }
            for name, marks in (("comma", ","), ("stop", ".!?"), ("semicolon", ";:"), ("other", "'_")):
                row[f"{name} before"] = any(mark in sentence.before[t] for mark in marks)
                row[f"{name} after"] = any(mark in sentence.after[t] for mark in marks)
            row["question"] = "?" in sentence.after[-1]
            row["exclamation"] = "!" in sentence.after[-1]
            for name, members in self._classes.items():
                row[name] = word in members
            row["function word"] = any(word in members for members in self._classes.values())
            for each in self._endings:
                row[f"ends in {each[0]}"] = len(word) > 4 and word.endswith(each)
            for tag in self._tags:
                row[f"tag {tag}"] = sentence.tags is not None and sentence.tags[t] == tag
            rows.append(row)
        return rows


class WordIndicators:
    """Binary features: the word, its neighbours, pairs, beginning and endings, if seen ``least`` times."""

    def __init__(self, training: Sequence[Sentence], least: int = 2):
        counts = Counter(name for sentence in training for names in _word_names(sentence) for name in names)
        kept = (name for name, count in counts.items() if count >= least)
        self._column = {name: column for column, name in enumerate(kept)}

    def describe(self, sentence: Sentence) -> sp.csr_array:
        """Return the indicators of the words, (words, names that were seen often enough)."""
        found = [[self._column[name] for name in names if name in self._column] for names in _word_names(sentence)]
        ends = np.cumsum([0, *map(len, found)])
        columns = np.array([column for each in found for column in each], dtype=np.int64)
        return sp.csr_array((np.ones(len(columns)), columns, ends), shape=(len(found), len(self._column)))


def _word_names(sentence: Sentence) -> list[list[str]]:
    words = ["<", "<", *(word.lower() for word in sentence.words), ">", ">"]
    return [
        [
            f"word={word}",
            f"last={last}",
            f"next={following}",
            f"last but one={before}",
            f"next but one={after}",
            f"last, word={last},{word}",
            f"word, next={word},{following}",
            f"begins={word[:3]}",
            f"two at the end={word[-2:]}",
            f"three at the end={word[-3:]}",
        ]
        for before, last, word, following, after in zip(*(words[i:] for i in range(5)), strict=False)
    ]


def joined(sentences: Sequence[Sentence], lexicon: Lexicon, indicators: WordIndicators, counted: bool) -> list:
    """Return dense features of a window of five words, then the indicators, as one CSR array per sentence."""
    tables = []
    for sentence in sentences:
        table = lexicon.describe(sentence, counted=counted)
        window = window_view(table, np.array([0, len(table)]), 5)
        tables.append(sp.hstack([sp.csr_array(window), indicators.describe(sentence)], format="csr"))
    return tables
