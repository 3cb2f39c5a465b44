"""Tables of results for the README and for other pages, made from the files of results.

    python -m benchmarks.readme_results

Figures are never typed: a block of these pages names the function here that makes it (experiments/result_pages.py).
"""

from __future__ import annotations

from statistics import mean

import numpy as np

from benchmarks.result_files import CAMPAIGNS, CHECKOUT, EXPERIMENTS, read_results
from experiments.gpstruct import rows_by_task
from experiments.kernel_families import unpack_right
from experiments.prominence import PRIMAL, kept
from experiments.result_pages import PAGES, percent, renew, table

KERNELS = ("linear", "degree 2", "degree 3", "RBF")
PLAIN_TASKS = {"basenp": "base NP", "segmentation": "word segmentation", "japanesene": "Japanese named entities"}


def accuracies(folder: str = "") -> str:
    """Return the table of accuracies by kernel; ``folder`` leads from the page to those of results."""
    tasks = [
        ("prominent words, 500 English sentences, 5-fold", _prominence("figure"), "", "prominence"),
        ("prominent words, Afrikaans, 5-fold", _prominence("afrikaans"), "", "prominence"),
        ("handwritten letters, small", _letters("small"), "", "ocr_letters"),
        ("handwritten letters, large", _letters("large"), "", "ocr_letters"),
        ("protein secondary structure, blind set", _families("proteins.json"), "RBF-SVM 68.7 %", "proteins"),
        ("gesture phases, a person left out", _gestures(), "", "gestures"),
        (
            "letters to phonemes, 1,000 common words to learn from",
            _families("nettalk.json", target="phoneme"),
            "",
            "nettalk",
        ),
    ]
    lines = [[task, *cells, elsewhere, f"[{page}]({folder}{page}.md)"] for task, cells, elsewhere, page in tasks]
    return table(["task", *KERNELS, "elsewhere", "page"], lines)


def _prominence(part: str) -> list[str]:
    rows = read_results("prominence.json", EXPERIMENTS)
    truth = np.concatenate(kept(rows, part, "truth"))
    found = (np.concatenate(kept(rows, part, model)) for model in (PRIMAL, *KERNELS[1:]))
    return [percent(np.mean(labels == truth)) for labels in found]


def _letters(protocol: str) -> list[str]:
    rows = read_results(f"ocr_{protocol}.json", EXPERIMENTS)
    errors = (
        [row["error"] for row in rows if row["family"] == name] for name in ("linear", "quadratic", "cubic", "rbf")
    )
    return [percent(1 - mean(each) / 100) for each in errors]


def _families(file: str, **chosen: str) -> list[str]:
    rows = [row for row in read_results(file, EXPERIMENTS) if chosen.items() <= row.items()]
    found = {row["family"]: percent(row["accuracy"]["value"]) for row in rows}
    return [found.get(name, "") for name in KERNELS]


def _gestures() -> list[str]:
    rows = read_results("gestures.json", EXPERIMENTS)
    right = ([each for row in rows if row["family"] == name for each in unpack_right(row["right"])] for name in KERNELS)
    return [percent(np.concatenate(videos).mean()) for videos in right]


def together() -> str:
    """Return the table of fields that join several kinds of inputs."""
    stack = next(row for row in read_results("protein_stack.json", EXPERIMENTS) if row.get("chosen"))
    chunks = [row["f1"] for row in read_results("chunking_embeddings.json", EXPERIMENTS) if row["part"] == "test"]
    page, tuned = "[embeddings](embeddings.md)", "outputs of a tuned encoder"
    lines = [
        [
            "protein secondary structure, blind set",
            "averaged fields, a second pass over marginals",
            percent(stack["blind"]["value"]),
            "RBF-SVM 68.7 %",
            "[proteins](proteins.md)",
        ],
        ["CoNLL-2000 chunks, F1", f"usual template, {tuned}", f"{max(chunks):.1f}", "94.2 without a network", page],
    ]
    rows = read_results("prominence_embeddings.json", EXPERIMENTS)
    for labels, published in ((2, "CRF 81.8 %, BERT 83.2 %"), (3, "CRF 66.4 %, BERT 68.6 %")):
        part = f"release {labels}"
        found, truth = (np.concatenate(kept(rows, part, model)) for model in ("tuned, features, words", "truth"))
        task, inputs = f"prominent English words, {labels} labels", f"our features, words, {tuned}"
        lines.append([task, inputs, percent(np.mean(found == truth)), f"{published}, on twenty times as much", page])
    return table(["task", "inputs", "result", "elsewhere", "page"], lines)


def graphs() -> str:
    """Return the table of experiments on graphs."""
    cells = {row["model"]: percent(row["accuracy"]["value"]) for row in read_results("snakes.json", EXPERIMENTS)}
    lines = [
        ["snakes on grids, cells right", model, cells[model], "[snakes](snakes.md)"]
        for model in ("no edges", "plain edges", "directional edges")
    ]
    models = {"none": "independent labels", "learn": "learnt graph", "tree": "tree graph", "full": "full graph"}
    for row in read_results("multilabel.json", EXPERIMENTS):
        if row["model"] in models:
            likelihood, right = mean(map(float, row["log_likelihoods"].split())), mean(map(int, row["right"]))
            task = f"{row['set']}, all labels of an instance right; log-likelihood"
            result = f"{percent(right)}; {likelihood:.2f}"
            lines.append([task, models[row["model"]], result, "[multilabel](multilabel.md)"])
    return table(["task", "field", "result", "page"], lines)


def tasks() -> str:
    """Return the table of GPstruct's tasks."""
    lines = [
        [
            PLAIN_TASKS.get(task, task),
            f"{row['mean']:.2f} % ({row['std']:.2f})",
            f"{row['published']} %",
            f"{mean(split['fit_seconds'] for split in row['splits']):.2f}",
        ]
        for task, row in sorted(rows_by_task().items())
    ]
    return table(["task", "kernelfields", "GPstruct", "seconds a fit"], lines)


def fit_speed() -> str:
    """Return the table of fit times."""
    lines = [
        [
            row["field"].replace("rbf", "RBF"),
            f"{row['positions']:,}",
            row["rank"],
            f"{row['basis_seconds']:.1f} s",
            f"{row['solver_seconds']:.1f} s",
            f"{row['passes']:.0f}",
            f"{row['gradient_share_of_rate']:.0%}",
            f"{row['peak_over_features']:.2f} x features",
        ]
        for row in read_results("fit_speed.json")
    ]
    header = ["field", "letters", "rank", "basis", "solver", "passes", "gradient, share of product rate", "peak memory"]
    return table(header, lines)


def crfsuite() -> str:
    """Return the table of sparse linear fields beside CRFsuite."""
    lines = [
        [
            f"{row['set']}, {row['tokens']:,} tokens",
            f"{row['c1']:g}, {row['c2']:g}",
            *(f"{row[who]['seconds']:.0f} s" for who in ("crfsuite", "ours", "ours_one_thread")),
            f"{row['ratio']:.2f}",
            *(f"{row['test'][who]:.2f}" for who in ("crfsuite", "ours")),
            f"{row['tokens_per_second']['ratio']:.1f} x",
            f"{row['peak_bytes']['ratio']:.2f} x" if "peak_bytes" in row else "",
        ]
        for row in read_results("crfsuite_speed.json")
    ]
    speeds = ["CRFsuite", "ours", "one thread", "ratio", "test, CRFsuite", "test, ours", "tagging speed", "peak memory"]
    return table(["data", "c1, c2", *speeds], lines)


def gaussian_processes() -> str:
    """Return the table of Gaussian process classification."""
    lines = []
    for row in read_results("gaussian_process_speed.json"):
        ours, theirs = row["ours"], row["theirs"]
        seconds, faster, loss = "", "", ""
        if theirs is not None:
            seconds, faster = f"{theirs['seconds']:.1f} s", f"{row['times_faster']:.1f}"
            loss = f"{theirs['log_loss']:.4f}"
        line = [f"{row['n_samples']:,}", seconds, f"{ours['seconds']:.1f} s", faster, loss, f"{ours['log_loss']:.4f}"]
        lines.append(line)
    return table(["samples", "theirs", "ours", "times faster", "log-loss, theirs", "ours"], lines)


def engines() -> str:
    """Return the table of engines: a GPU, a cluster, little memory."""
    lines = []
    for row in read_results("gpu_fit.json"):
        data = f"{row['data']}, {row['n_positions']:,} positions, rank {row['rank']:,}"
        error = f", test error {row['test_error']:.2%}" if "test_error" in row else ""
        lines.append([f"torch, {row['device']}", data, f"{row['seconds']:.1f} s, {row['passes']:.0f} passes{error}"])
    for row in read_results("cluster.json"):
        if row["what"] == "processes":
            data = f"{row['data']}, {row['positions']:,} positions, rank {row['rank']}"
            figure = f"{row['ratio']:.2f} times the passes a second of two threads"
            lines.append(["dask, two workers of one thread", data, figure])
    kills = read_results("dask_kills.json", CAMPAIGNS)
    same = f"{sum(row['same'] for row in kills)} of {len(kills)} fits end at the same objective"
    kinds = ", ".join(dict.fromkeys(row["kind"] for row in kills))
    lines.append(["dask, a worker killed at random", kinds, same])
    stored = {row["keep"]: row for row in read_results("out_of_core.json")}
    row, ratio = stored["budget"], stored["budget"]["cpu_seconds"] / stored["memory"]["cpu_seconds"]
    budget = row["share"] * row["feature_bytes"] / 1e6
    figure = f"{ratio:.2f} times the processor time in memory, peak {row['peak_bytes'] / 1e6:.0f} MB of {budget:.0f}"
    data = f"OCR letters, large, rank {row['rank']:,}"
    lines.append([f"threads, memory of {row['share']:.0%} of the features", data, figure])
    return table(["engine", "data", "figure"], lines)


def on_one_device() -> str:
    """Return whole fits of workers that share a device, beside the device alone."""
    rows = {row["what"]: row for row in read_results("cluster.json") if row["data"] == "chains"}
    names = {"cuda alone": '`Torch("cuda")`', "1 on one cuda": "one worker", "2 on one cuda": "two workers"}
    lines = [
        [
            shown,
            *(f"{rows[what][name]:.2f} s" for name in ("seconds", "solver_seconds")),
            *(f"{rows[what][name]:.2f}" if name in rows[what] else "" for name in ("whole_ratio", "solver_ratio")),
        ]
        for what, shown in names.items()
    ]
    return table(["engine", "whole fit", "solver", "ratio", "ratio of solvers"], lines)


def communication() -> str:
    """Return what sums take between processes, measured and modelled, and what share of the speed devices keep."""
    (row,) = read_results("communication.json")
    measured = {each["processes"]: f"{each['ms']:.2f} ms" for each in row["measured"]}
    lines = [
        [
            each["devices"],
            measured.get(each["devices"], ""),
            f"{each['ms']:.2f} ms",
            *(f"{each[positions]:.2f}" for positions in ("1e+08", "1e+09", "weak")),
        ]
        for each in row["curve"][1:]
    ]
    header = ["processes or devices", "a sum, measured", "modelled", "10^8 positions", "10^9 positions", "10^6 on each"]
    found = f"Latency {1e3 * row['latency']:.2f} ms, bandwidth {row['bandwidth'] / 1e9:.2f} GB/s:"
    return f"{found}\n\n{table(header, lines)}"


def device_fits() -> str:
    """Return the table of whole fits on one GPU."""
    chains = "`ChainCRF`, {:,} synthetic positions, 128 binary features, 26 labels, cubic"
    lines = [
        [
            chains.format(row["n_positions"])
            if row["data"] == "synthetic"
            else f"`ChainCRF`, {row['data']} (error {row['test_error']:.2%}), cubic",
            row,
        ]
        for row in read_results("gpu_fit.json")
    ]
    classes = next(row for row in read_results("gpu_fields.json") if row["part"] == "classes")
    lines.append(
        [f"`KernelClassifier`, {classes['inputs']:,} inputs of width 32, ten classes, RBF", {**classes, "rank": 2048}]
    )
    return table(
        ["data", "rank", "seconds", "of these solver", "passes"],
        [
            [data, f"{row['rank']:,}", f"{row['seconds']:.1f}", f"{row['solver_seconds']:.1f}", row["passes"]]
            for data, row in lines
        ],
    )


def first_looks() -> str:
    """Return what estimators without settings get, and what it costs, beside what else one would take."""
    rows = read_results("first_try.json")
    tries = {(row["task"], row["how"]): row for row in rows if row["version"] == "new"}
    costs = {(row["set"], row["how"]): row for row in read_results("text_costs.json")}
    lines = []
    for task, name, measure in (
        ("references", "parts of bibliographic references, words", "F1"),
        ("wnut", "entities in tweets (WNUT-17), words", "F1"),
        ("addresses", "parts of addresses, words", "%"),
    ):
        ours, theirs, network = (costs.get((task, how)) for how in ("command", "crfsuite", "spacy"))
        peers = f"CRFsuite, the same features: {_scored(theirs, measure)}"
        if network is not None:
            peers += f"; spaCy's small network, without vectors: {_scored(network, measure)}"
        lines.append([name, _scored(ours, measure), peers])
    for task, name in (
        ("occupancy", "occupancy of a room, sensors"),
        ("gestures", "phases of gestures, a person left out"),
        ("facies", "rock types along wells, a well left out"),
    ):
        ours, theirs = tries[task, "first try"], tries[task, "forest on windows"]
        lines.append([name, _sensed(ours), f"forest on windows: {_sensed(theirs)}"])
    ours, theirs = tries["tolokers", "GraphCRF"], tries["tolokers", "each by itself"]
    name = "workers who are banned, a graph of 11,758"
    area = [f"AUC {row['figures']['AUC']:.3f}" for row in (ours, theirs)]
    lines.append([name, area[0], f"each node by itself: {area[1]}"])
    return table(["task", "kernelfields", "compared with"], lines)


def _scored(row: dict, measure: str) -> str:
    """Return a score on text with its cost."""
    figure = f"F1 {row['score']:.1f}" if measure == "F1" else f"{row['score']:.1f} %"
    return f"{figure}; {row['cpu_seconds']:.0f} s, {row['peak_mb']:,} MB"


def _sensed(row: dict) -> str:
    """Return accuracy and log-loss on numbers with their cost."""
    figures = row["figures"]
    return f"{percent(figures['accuracy'])}, log loss {figures['log loss']:.2f}; {row['cpu_seconds']:.0f} s"


def highlights(folder: str = "") -> str:
    """Return the results with settings of their own to show; ``folder`` leads from the page to those of results."""
    chunks = next(row for row in read_results("crfsuite_speed.json") if row["c1"] == 0)
    letters, proteins = _letters("small"), _families("proteins.json")
    labels = {row["model"]: row for row in read_results("multilabel.json", EXPERIMENTS) if row["set"] == "scene"}
    right = {model: percent(mean(map(int, row["right"]))) for model, row in labels.items()}
    classifier = max(
        (row for row in read_results("gaussian_process_speed.json") if row["theirs"]), key=lambda row: row["n_samples"]
    )
    prominent = _prominence("figure")
    layer = next(
        row
        for row in read_results("layer_speed.json")
        if (row["place"], row["batch"], row["package"]) == ("NVIDIA H200", 32, "pytorch-crf")
    )
    lines = [
        [
            f"chunks of CoNLL-2000, {chunks['tokens']:,} words, one linear fit of given settings",
            f"F1 {chunks['test']['ours']:.1f} after {chunks['ours']['seconds']:.0f} s",
            f"CRFsuite: {chunks['test']['crfsuite']:.1f} after {chunks['crfsuite']['seconds']:.0f} s",
            "index",
        ],
        ["handwritten letters in words", f"{letters[2]} with a cubic kernel", f"linear: {letters[0]}", "ocr_letters"],
        [
            "protein secondary structure",
            f"{proteins[1]} with a quadratic kernel",
            f"linear: {proteins[0]}, SVM on windows: 68.7 %",
            "proteins",
        ],
        [
            "several labels of a picture (scene), all of them right",
            right["full"],
            f"each label alone: {right['none']}",
            "multilabel",
        ],
        [
            f"Gaussian process classification, {classifier['n_samples']:,} samples",
            f"{classifier['ours']['seconds']:.1f} s",
            f"scikit-learn: {classifier['theirs']['seconds']:.1f} s",
            "index",
        ],
        [
            "a CRF layer in PyTorch, one H200, batches of 32",
            f"layer in {layer['layer_ratio']:.2f}, epoch in {layer['epoch_ratio']:.2f} of its time",
            "pytorch-crf: 1",
            "index",
        ],
        ["prominent words, features made by hand", f"{prominent[3]} with RBF", f"linear: {prominent[0]}", "prominence"],
    ]
    return table(
        ["task", "kernelfields", "compared with", "page"],
        [[*line[:-1], f"[{line[-1]}]({folder}{line[-1]}.md)"] for line in lines],
    )


def parsers() -> str:
    """Return the table of packages with our module in the place of pycrfsuite."""
    lines = [
        [
            row["package"],
            f"{row['texts'] - row['differ']:,} of {row['texts']:,}",
            f"{row['tests passed with ours']:,} of {row['tests passed with theirs']:,}",
            *(f"{row[f'tag by {who}']:.0f} µs" for who in ("theirs", "ours")),
            f"{row['tag ratio']:.2f}",
            f"{row['first tag by ours']:,.0f} µs",
            f"{row['parse ratio']:.2f}",
        ]
        for row in read_results("parsers.json")
    ]
    header = ["package", "texts with equal labels", "tests", "tag there", "tag here", "ratio", "tag here, first time"]
    return table([*header, "ratio of parse"], lines)


def crfsuite_models() -> str:
    """Return the table of models that CRFsuite trained, opened here."""
    lines = [
        [
            row["program"],
            row["algorithm"],
            f"{row['sentences'] - row['labels']} of {row['sentences']}",
            *(f"{row[name]:.0e}" for name in ("marginals", "log-probabilities")),
            *(f"{row[name]:.0f} µs" for name in ("pycrfsuite", "ours")),
            f"{row['ratio']:.2f}",
        ]
        for row in read_results("crfsuite_models.json")
    ]
    header = ["program", "algorithm", "sentences with equal labels", "marginals", "log-probabilities"]
    return table([*header, "tag there", "tag here", "ratio"], lines)


def main() -> None:
    docs = CHECKOUT / "docs"
    for page in (
        CHECKOUT / "README.md",
        docs / "dask.md",
        docs / "engines.md",
        docs / "migrating.md",
        docs / "sensors.md",
        PAGES / "index.md",
    ):
        print(f"{'wrote' if renew(page) else 'nothing new in'} {page.relative_to(CHECKOUT)}")


if __name__ == "__main__":
    main()
