"""Ways chosen on training data: disorder and topology of proteins, occupancy of an office, phonemes of letters.

    python -m experiments.long_windows [--tasks disorder membrane occupancy phonemes] [--page]

Each task has a handful of ways, laid down here. Every way is fitted to a part of the training sequences and judged on
the others; the best one alone is fitted to all of them and measured on the test part, once:

    disorder    judged by AUC on a fifth of the training proteins; those that share a tenth of their runs of four
                residues stay on one side, as no protein of the test part shares so many with one of training
    membrane    judged by the mean of accuracy and topology on one of the five folds of the set's authors
    occupancy   judged by accuracy on each day, after a fit to the other days
    phonemes    judged by accuracy on a fifth of the training words

Intervals are of 95 %, by drawing sequences; the test part of occupancy is a single one, of which parts of three hours
are drawn. Writes experiments/results/long_windows.json and docs/results/long_windows.md.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import scipy.sparse
from scipy.ndimage import uniform_filter1d
from scipy.sparse.csgraph import connected_components
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupShuffleSplit
from sklearn.preprocessing import StandardScaler

from benchmarks.defaults import OLD, nettalk
from benchmarks.first_try import json_lines, spans
from benchmarks.result_files import EXPERIMENTS, merge_results, read_results
from benchmarks.shared_data import data_file
from experiments.result_pages import ResultPage
from kernelfields import ChainCRF, PartialLabels, WindowFeatures
from kernelfields.kernels import Polynomial

RESULTS = "long_windows.json"
DRAWS = 1000
#: Hydropathy (Kyte and Doolittle), helices and sheets (Chou and Fasman), volume, charge, disorder (TOP-IDP).
_TABLE = """
A 1.8 1.42 0.83 88.6 0 0.06, R -4.5 0.98 0.93 173.4 1 0.18, N -3.5 0.67 0.89 114.1 0 0.007,
D -3.5 1.01 0.54 111.1 -1 0.192, C 2.5 0.7 1.19 108.5 0 0.02, Q -3.5 1.11 1.1 143.8 0 0.318,
E -3.5 1.51 0.37 138.4 -1 0.736, G -0.4 0.57 0.75 60.1 0 0.166, H -3.2 1 0.87 153.2 0 0.303,
I 4.5 1.08 1.6 166.7 0 -0.486, L 3.8 1.21 1.3 166.7 0 -0.326, K -3.9 1.16 0.74 168.6 1 0.586,
M 1.9 1.45 1.05 162.9 0 -0.397, F 2.8 1.13 1.38 189.9 0 -0.697, P -1.6 0.57 0.55 112.7 0 0.987,
S -0.8 0.77 0.75 89 0 0.341, T -0.7 0.83 1.19 116.1 0 0.059, W -0.9 1.08 1.37 227.8 0 -0.884,
Y -1.3 0.69 1.47 193.6 0 -0.51, V 4.2 1.06 1.7 140 0 -0.121
"""
SCALES = {row.split()[0]: [float(number) for number in row.split()[1:]] for row in _TABLE.split(",")}
#: Labels of membrane proteins: sides, signals, and segments by the side that they come from.
STATES = ["1", "2", "S", "H>", "H<", "B>", "B<"]
Part = tuple[list[np.ndarray], list[list]]


def residues(sequence: str) -> np.ndarray:
    """Return a column for each kind of residue, then scales of residues; zeros where it is not known."""
    found = np.array(list(sequence))[:, None] == np.array(list(SCALES))
    scales = np.array(list(SCALES.values()))
    scales = np.column_stack([scales, np.abs(scales[:, 4])])
    scales = (scales - scales.mean(axis=0)) / scales.std(axis=0)
    return np.hstack([found, found @ scales]).astype(float)


def ends(length: int) -> np.ndarray:
    """Return how near the ends of a protein are, how long it is, and where in it a residue is."""
    before, after = np.arange(length), np.arange(length)[::-1]
    near = [np.exp(-distance / reach) for reach in (5, 20) for distance in (before, after)]
    return np.column_stack([*near, np.full(length, np.log(length)), before / length])


def around(X: Sequence[np.ndarray], widths: Sequence[int]) -> list[np.ndarray]:
    """Return means of residues and scales over windows and over all, how mixed residues are, and the ends."""
    means = WindowFeatures(widths=[*widths, 9999], statistics=["mean"], passthrough=False).fit_transform(X)
    made = []
    for own in means:
        shares = own.reshape(len(own), -1, X[0].shape[1])[:, -4:, : len(SCALES)]
        mixed = -(shares * np.log(np.maximum(shares, 1e-9))).sum(axis=2)
        made.append(np.hstack([own, mixed, ends(len(own))]))
    return made


def standardised(train: list[np.ndarray], test: list[np.ndarray], weight: float) -> tuple[list, list]:
    """Return columns with the mean and the spread that they have in training, the last six times a weight."""
    scaler = StandardScaler().fit(np.vstack(train))
    weights = np.r_[np.ones(train[0].shape[1] - 6), np.full(6, weight)]
    return tuple([(scaler.transform(x) * weights).astype(np.float32) for x in part] for part in (train, test))


def families(sequences: list[str], length: int = 4, share: float = 0.1) -> np.ndarray:
    """Return a number for each protein, the same where proteins share so many of their runs of residues."""
    runs = [{s[i : i + length] for i in range(len(s) - length + 1)} for s in sequences]
    places = {run: place for place, run in enumerate(sorted(set().union(*runs)))}
    rows = np.repeat(np.arange(len(runs)), [len(own) for own in runs])
    columns = [places[run] for own in runs for run in own]
    table = scipy.sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=(len(runs), len(places)))
    shared = (table @ table.T).tocoo()
    sizes = np.array([len(own) for own in runs])
    alike = shared.data >= np.maximum(4, share * np.minimum(sizes[shared.row], sizes[shared.col]))
    pairs = shared.row[alike], shared.col[alike]
    return connected_components(scipy.sparse.coo_array((np.ones(alike.sum()), pairs), shape=shared.shape))[1]


def disorder_parts() -> tuple[Part, Part, list]:
    """Return proteins of training and test, 1 where a residue is disordered, and parts of training to fit and judge."""

    def read(part: str) -> tuple[list[str], Part]:
        found = json_lines("first-try-2", f"disorder-{part}.jsonl.gz")
        y = [[None if z > 900 else int(z < 8) for z in each["z"]] for each in found]
        sequences = [each["sequence"] for each in found]
        return sequences, ([residues(sequence) for sequence in sequences], y)

    (sequences, train), (_, test) = read("train"), read("test")
    split = GroupShuffleSplit(1, test_size=0.2, random_state=0)
    return train, test, list(split.split(sequences, groups=families(sequences)))


def disorder_way(kernel: str, weight: float = 1.0, **settings: Any) -> Callable[[Part, list], list[np.ndarray]]:
    """Return a way: a chain on means over windows, its answers probabilities of disorder."""

    def answer(train: Part, X: list[np.ndarray]) -> list[np.ndarray]:
        widths = (5, 11, 21, 41, 81)
        seen, others = standardised(around(train[0], widths), around(X, widths), weight)
        crf = ChainCRF(kernel, scale=False, random_state=0, **settings).fit(seen, train[1])
        return [own[:, 1] for own in crf.predict_marginals(others)]

    return answer


def area(y: list[list], answers: list) -> dict[str, float]:
    true = np.concatenate([np.array(own, dtype=float) for own in y])
    known = ~np.isnan(true)
    return {"AUC": float(roc_auc_score(true[known], np.concatenate(answers)[known]))}


def accuracy(y: list[list], answers: list) -> dict[str, float]:
    pairs = [pair for true, own in zip(y, answers, strict=True) for pair in zip(true, own, strict=True)]
    return {"accuracy": float(np.mean([true == own for true, own in pairs if true is not None]))}


def topology(y: list[list], answers: list) -> dict[str, float]:
    """Return accuracy, and the share of proteins whose segments are all found and no others."""
    right = [spans(true) == spans(own, true) for true, own in zip(y, answers, strict=True)]
    return {**accuracy(y, answers), "topology": float(np.mean(right))}


def membrane_parts() -> tuple[Part, Part, list]:
    """Return membrane proteins of training and test, None where a label is not known, and a fold to judge on."""
    proteins = {each["id"]: each for each in json_lines("first-try-2", "membrane.jsonl.gz")}
    with open(data_file("first-try-2", "membrane-subset.json")) as file:
        subset = json.load(file)
    fold = np.array([proteins[name]["fold"] for name in subset["train"]])

    def read(part: str) -> Part:
        found = [proteins[name] for name in subset[part]]
        labels = [[None if letter == "U" else letter for letter in each["labels"].upper()] for each in found]
        return [residues(each["sequence"]) for each in found], labels

    return read("train"), read("test"), [(np.flatnonzero(fold != 0), np.flatnonzero(fold == 0))]


def states_of(labels: list[str | None]) -> list:
    """Return labels whose segments have the side that they come from; a set where it is not known."""
    runs = [(label, len(list(run))) for label, run in groupby(labels)]
    sides = [None, *(label for label, _ in runs), None]
    made: list = []
    for (label, length), before, after in zip(runs, sides, sides[2:], strict=False):
        state: Any = label
        if label in ("H", "B"):
            up, down = before == "1" or after == "2", before == "2" or after == "1"
            state = {f"{label}>", f"{label}<"} if up == down else f"{label}>" if up else f"{label}<"
        made += [state] * length
    return made


def may_follow(left: str, right: str) -> bool:
    """Whether a state may follow another: segments lead from one side to the other, signals come first."""
    before, after = {">": "12", "<": "21"}, "12"
    if left == right or left == "S":
        return left == right or right in after
    if left in after and right in after:
        return True
    return before.get(right[1:], " ")[0] == left or before.get(left[1:], " ")[-1] == right


def whole(x: np.ndarray) -> np.ndarray:
    """Return what a protein is like as a whole: its first residues, and how long it stays hydrophobic, where."""
    hydropathy = x[:, len(SCALES)]
    short, long = (uniform_filter1d(hydropathy, width, mode="constant") for width in (9, 19))
    begin, rest = long[:35], long[min(35, len(long) - 1) :]
    charge = x[:10, len(SCALES) + 4].mean()
    tops = [short[:35].max(), begin.max(), rest.max(), long.max()]
    return np.r_[x[:25].mean(axis=0), tops, (rest > 0.8).mean(), np.sqrt((long > 0.8).sum()), charge]


def membrane_columns(X: list[np.ndarray]) -> list[np.ndarray]:
    """Return scales of the residues around, means over windows, and columns of the whole protein, the same for all."""
    made = []
    for x, means in zip(X, around(X, (7, 15, 25, 51)), strict=True):
        near = np.pad(x[:, len(SCALES) :], ((7, 7), (0, 0)))
        steps = [near[step : step + len(x)] for step in range(15)]
        made.append(np.hstack([*steps, np.tile(whole(x), (len(x), 1)), means]))
    return made


def membrane_way(kernel: str, in_states: bool, **settings: Any) -> Callable[[Part, list], list[list[str]]]:
    """Return a way: a chain of labels, or of states whose strength is shared by those of one label."""
    if in_states:
        pairs = [(left, right) for left in sorted(STATES) for right in sorted(STATES)]
        alike = [[left[0] == right[0], left == right] for left, right in pairs]
        settings["constraints"] = [(left, right) for left, right in pairs if not may_follow(left, right)]
        settings["partial_labels"] = PartialLabels(classes=STATES)
        settings["label_kernel"] = (np.array(alike) @ [1.0, 0.4]).reshape(len(STATES), -1)

    def answer(train: Part, X: list[np.ndarray]) -> list[list[str]]:
        inputs, others = standardised(membrane_columns(train[0]), membrane_columns(X), 1.0)
        y = [states_of(own) for own in train[1]] if in_states else train[1]
        crf = ChainCRF(kernel, scale=False, random_state=0, n_jobs=1, **settings).fit(inputs, y)
        labels = np.array(sorted({state[0] for state in STATES}))
        # Probabilities of labels are sums over their states.
        sums = np.array([[str(state)[0] == label for label in labels] for state in crf.classes_])
        return [labels[(own @ sums).argmax(axis=1)].tolist() for own in crf.predict_marginals(others)]

    return answer


def occupancy_parts() -> tuple[Part, Part, list]:
    """Return days of training, the first test part as one sequence, without light, and each day against the others."""
    with np.load(data_file("occupancy", "occupancy.npz"), allow_pickle=False) as archive:
        kept = [i for i, name in enumerate(archive["feature_names"].tolist()) if "light" not in name.lower()]
        (x, y), (x_test, y_test) = (
            (archive[f"x_{part}"][:, kept], archive[f"y_{part}"]) for part in ("train", "test1")
        )
        starts = np.flatnonzero(np.diff(archive["time_train"] // 86400)) + 1
    days = np.arange(len(starts) + 1)
    folds = [(days[days != day], [day]) for day in days]
    return (np.split(x, starts), np.split(y, starts)), ([x_test], [y_test]), folds


def occupancy_way(kernel: str = "auto", windows: Any = None, columns: Any = None, **settings: Any) -> Callable:
    """Return a way: a chain on some columns, with or without windows around; days are cut into parts of 500 minutes."""

    def answer(train: Part, X: list[np.ndarray]) -> list:
        def seen(x: list[np.ndarray]) -> list[np.ndarray]:
            own = [each if columns is None else each[:, columns] for each in x]
            return own if windows is None else windows.fit(own).transform(own)

        parts = [
            (x[i : i + 500], y[i : i + 500])
            for x, y in zip(seen(train[0]), train[1], strict=True)
            for i in range(0, len(x), 500)
        ]
        crf = ChainCRF(kernel, random_state=0, n_jobs=1, **settings).fit(*map(list, zip(*parts, strict=True)))
        return crf.predict(seen(X))

    return answer


def phoneme_parts() -> tuple[Part, Part, list]:
    """Return letters with two neighbours on either side and phonemes, as the comparison of defaults has them."""
    X, y, X_test, y_test = nettalk()
    words = np.arange(len(X))
    return (X, y), (X_test, y_test), [(words[words % 5 > 0], words[words % 5 == 0])]


def plain_way(**settings: Any) -> Callable[[Part, list], list]:
    """Return a way: a chain on inputs as they come."""
    return lambda train, X: ChainCRF(random_state=0, n_jobs=1, **settings).fit(*train).predict(X)


@dataclass(frozen=True)
class Task:
    """What is read, the ways and how they are measured; ``score`` of the figures decides between ways."""

    title: str
    read: Callable[[], tuple[Part, Part, list]]
    ways: dict[str, Callable[[Part, list], list]]
    figures: Callable[[list, list], dict[str, float]]
    before: str
    text: str
    block: int | None = None

    def score(self, found: dict[str, float]) -> float:
        return float(np.mean(list(found.values())))


TASKS = {
    "disorder": Task(
        "Disorder of proteins",
        disorder_parts,
        {
            "linear": disorder_way("linear"),
            "RBF": disorder_way("rbf", rank=500),
            "Laplacian": disorder_way("laplacian", rank=500),
            "Laplacian, ends times 4": disorder_way("laplacian", 4.0, rank=500),
            "Laplacian, ends times 4, rank 1000": disorder_way("laplacian", 4.0, rank=1000),
        },
        area,
        "AUC .842 with 900 proteins, .830 with 400 and defaults; logistic regression .816, LightGBM .807",
        "CheZOD: 1,174 proteins to learn from and 117 to test, from their residues alone; a residue is disordered "
        "where its score is below 8. Columns are shares of residues and means of seven scales over 5 to 81 residues "
        "and over the whole protein, how mixed residues are, the length of the protein and how near its ends are. "
        "Held out is a fifth of the training proteins, none of which shares a tenth of its runs of four residues "
        "with one that is fitted to; at that share no test protein has a relative in training either. The columns, "
        "and the weight of the ends, were settled on the same proteins, so figures held out are too high; test "
        "proteins are disordered far more often, in 68 % of their residues instead of 28 %.",
    ),
    "membrane": Task(
        "Topology of membrane proteins",
        membrane_parts,
        {
            "RBF": membrane_way("rbf", False, rank=500, prior_variance=0.1),
            "RBF, variance 0.3": membrane_way("rbf", False, rank=500, prior_variance=0.3),
            "RBF, states": membrane_way("rbf", True, rank=500, prior_variance=0.1),
            "Laplacian": membrane_way("laplacian", False, rank=500, prior_variance=0.1),
        },
        topology,
        "77.7 % and .263, 77.2 % and .316 with copies of states; LightGBM 62.9 % and .039",
        "A subset of TMbed's proteins, 450 to learn from and 142 to test, from their residues alone: helices and "
        "strands through the membrane, signals, and the two sides. Topology is the share of proteins in which all "
        "segments are found and no others; a segment where labels are not known counts as wrong. Columns are scales "
        "of 15 residues around, means over 7 to 51 residues and the whole protein, its first residues, and its most "
        "hydrophobic parts. States: a segment has the side that it comes from, and leads to the other. Labels are the "
        "most probable ones of each residue. The columns were settled on the fold that is held out.",
    ),
    "occupancy": Task(
        "Occupancy of an office",
        occupancy_parts,
        {
            "as in 0.1": occupancy_way("rbf", prior_variance=1.0, scale=False, decode="viterbi"),
            "defaults": occupancy_way(),
            "CO2 alone": occupancy_way(columns=[2]),
            "windows": occupancy_way(windows=WindowFeatures(widths=(15, 45), statistics=("mean", "difference"))),
            "windows, linear": occupancy_way(
                "linear", WindowFeatures(widths=(15, 45), statistics=("mean", "difference")), scale=True
            ),
            "differences": occupancy_way(
                windows=WindowFeatures(widths=(5, 15, 45, 121), statistics=("difference",), passthrough=False)
            ),
            "differences, linear": occupancy_way(
                "linear",
                WindowFeatures(widths=(5, 15, 45, 121), statistics=("difference",), passthrough=False),
                scale=True,
            ),
        },
        accuracy,
        "85.7 % with the defaults of 0.1, 81.2 % with those of today ([defaults](defaults.md))",
        "Temperature, humidity, CO2 and humidity ratio of an office, minute by minute, without light, which gives the "
        "answer away; 8,143 minutes to learn from, 2,665 of other days to test. Held out is each day in turn.",
        block=180,
    ),
    "phonemes": Task(
        "Phonemes of letters",
        phoneme_parts,
        {
            "as in 0.1": plain_way(**OLD[ChainCRF]),
            "defaults": plain_way(),
            "degree 2": plain_way(kernel=Polynomial(degree=2), rank=1000),
        },
        accuracy,
        "74.7 % with defaults, 68.9 % with those of 0.1 ([defaults](defaults.md))",
        "The first 1,000 words of NETtalk's list to learn from, 500 others to test, letters with two neighbours on "
        "either side. Held out is a fifth of the training words. [nettalk](nettalk.md) has the whole list; "
        "its test figures, by which degree 2 is best, were known when this way was added.",
    ),
}


def measure(name: str) -> None:
    """Judge every way of a task on training data, and measure the best on the test part."""
    task = TASKS[name]
    train, test, folds = task.read()

    def part(places: Sequence[int]) -> Part:
        return [train[0][i] for i in places], [train[1][i] for i in places]

    scores = {}
    for way, answer in task.ways.items():
        begin = time.perf_counter()
        true, answers = [], []
        for inside, outside in folds:
            held = part(outside)
            answers += answer(part(inside), held[0])
            true += held[1]
        found = task.figures(true, answers)
        scores[way] = task.score(found)
        keep(name, way, "held out", found, time.perf_counter() - begin)
    best = max(scores, key=lambda way: scores[way])
    begin = time.perf_counter()
    answers, true = task.ways[best](train, test[0]), test[1]
    seconds = time.perf_counter() - begin
    found = task.figures(true, answers)
    if task.block:
        cuts = [slice(i, i + task.block) for i in range(0, len(true[0]), task.block)]
        answers, true = [answers[0][cut] for cut in cuts], [true[0][cut] for cut in cuts]
    random = np.random.default_rng(0)
    draws = [random.integers(len(true), size=len(true)) for _ in range(DRAWS)]
    drawn = [task.figures([true[i] for i in draw], [answers[i] for i in draw]) for draw in draws]
    ends_of = {key: np.quantile([own[key] for own in drawn], [0.025, 0.975]).tolist() for key in found}
    keep(name, best, "test", found, seconds, intervals=ends_of)


def keep(task: str, way: str, part: str, found: dict[str, float], seconds: float, **more: Any) -> None:
    print(task, way, part, found, f"{seconds:.0f} s", more, flush=True)
    row = {"task": task, "way": way, "part": part, "figures": found, "seconds": round(seconds, 1), **more}
    merge_results(RESULTS, [row], ("task", "way", "part"), EXPERIMENTS)


def page() -> None:
    """Write the page from the results."""
    rows = read_results(RESULTS, EXPERIMENTS)
    sheet = ResultPage(
        "long_windows",
        "Ways chosen on training data",
        command="python -m experiments.long_windows",
        seconds=sum(row["seconds"] for row in rows),
        machine="one core beside other work",
    )
    sheet.text(
        "A handful of ways for each set, judged on training sequences that they were not fitted to; the best is fitted "
        "to all training sequences and measured on the test part once. Intervals are of 95 %, by drawing sequences. "
        "The ways for proteins are what was left of some thirty trials (disorder) and ten (membrane) on the same "
        "held-out parts."
    )
    for name, task in TASKS.items():
        own = {(row["way"], row["part"]): row for row in rows if row["task"] == name}
        if not own:
            continue
        sheet.heading(task.title)
        sheet.text(task.text)
        names = list(next(iter(own.values()))["figures"])
        table = []
        for way in (way for way in task.ways if (way, "held out") in own):
            held, tested = own[way, "held out"], own.get((way, "test"))
            cells = [f"{held['figures'][key]:.3f}" for key in names]
            cells += [_with_interval(tested, key) if tested else "" for key in names]
            table.append([way, *cells, f"{held['seconds']:.0f}"])
        header = [*(f"{key}, held out" for key in names), *(f"{key}, test" for key in names)]
        sheet.table(["way", *header, "seconds, held out"], table)
        sheet.text(f"Before: {task.before}.")
    sheet.write()


def _with_interval(row: dict, key: str) -> str:
    low, high = row["intervals"][key]
    return f"{row['figures'][key]:.3f} [{low:.3f}, {high:.3f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--page", action="store_true", help="only write the page")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in [] if given.page else given.tasks:
        measure(name)
    page()


if __name__ == "__main__":
    main()
