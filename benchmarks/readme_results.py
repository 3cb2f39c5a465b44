"""Write the results blocks of the README and of docs/results/index.md from the results of benchmarks and experiments.

    python -m benchmarks.readme_results

Figures are never typed: what has no result file has no line.
"""

from __future__ import annotations

from pathlib import Path
from statistics import mean

from benchmarks.result_files import EXPERIMENTS, read_results
from experiments.headlines import KERNELS, best_lines, graph_lines, lines

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
PAGE = ROOT / "docs" / "results" / "index.md"
BEGIN, END = "<!-- results:begin -->", "<!-- results:end -->"
TASK_NAMES = {
    "basenp": "base NP",
    "chunking": "chunking",
    "segmentation": "word segmentation",
    "japanesene": "Japanese named entities",
}
FIELDS = {"cubic": "cubic", "rbf": "RBF"}


def accuracy_table() -> list[str]:
    """Return the table of accuracies by kernel."""
    return [
        "**Accuracy by kernel** (`kernelfields reproduce NAME`; each page has intervals, differences, protocol "
        "and limits): share of labels right, hyper-parameters by cross-validation inside the training data.",
        "",
        f"| task | {' | '.join(KERNELS)} | elsewhere | page |",
        "|---" * (len(KERNELS) + 3) + "|",
        *(f"| {' | '.join(line)} |" for line in lines()),
    ]


def best_table() -> list[str]:
    """Return the table of fields that join several kinds of inputs."""
    return [
        "**Everything together**: fields that join kernels, features, averages or a tuned encoder, chosen on training "
        "data; [defaults](docs/results/defaults.md) has what no choice at all brings.",
        "",
        "| task | inputs | result | elsewhere | page |",
        "|---|---|---|---|---|",
        *(f"| {' | '.join(line)} |" for line in best_lines()),
    ]


def graphs_table() -> list[str]:
    """Return the table of experiments on graphs."""
    return [
        "**Graphs** (`kernelfields reproduce snakes` and `multilabel`): edges that see what they join, and labels "
        "that depend on each other; figures on the test parts.",
        "",
        "| task | field | result | page |",
        "|---|---|---|---|",
        *(f"| {' | '.join(line)} |" for line in graph_lines()),
    ]


def tasks_table() -> list[str]:
    """Return the table of GPstruct's tasks."""
    lines = [
        "**Four small NLP tasks** (`kernelfields reproduce gpstruct`): token error, mean over the five published "
        "splits; GPstruct's figures are those of its paper, after 250,000 MCMC steps.",
        "",
        "| task | kernelfields | GPstruct | seconds a fit |",
        "|---|---|---|---|",
    ]
    for row in read_results("gpstruct.json", EXPERIMENTS):
        seconds = mean(split["fit_seconds"] for split in row["splits"])
        lines.append(
            f"| {TASK_NAMES[row['task']]} | {row['mean']:.2f} % ({row['std']:.2f}) | {row['published']} % "
            f"| {seconds:.2f} |"
        )
    return lines


def speed_table() -> list[str]:
    """Return the table of fit times."""
    lines = [
        "**Speed** (`python -m benchmarks.fit_speed --large --scipy`): OCR letters to a certified relative gap of "
        "1e-3 on two cores; a pass is one gradient, compared with the machine's rate for large float32 products.",
        "",
        "| field | letters | rank | basis | solver | passes | gradient, share of product rate | peak memory |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in read_results("fit_speed.json"):
        lines.append(
            f"| {FIELDS[row['field']]} | {row['positions']:,} | {row['rank']} | {row['basis_seconds']:.1f} s "
            f"| {row['solver_seconds']:.1f} s | {row['passes']:.0f} | {row['gradient_share_of_rate']:.0%} "
            f"| {row['peak_over_features']:.2f} x features |"
        )
    return lines


def crfsuite_table() -> list[str]:
    """Return the table of sparse linear fields beside CRFsuite."""
    lines = [
        "**Sparse linear fields beside CRFsuite** (`python -m benchmarks.crfsuite_speed`, also with `--l1`): "
        "CoNLL-2000 chunking and UD English part-of-speech tags; seconds after ingest to within 0.01 % of the "
        "loss CRFsuite stops at, in one run on two cores; entity F1 or accuracy on the test set.",
        "",
        "| data | c1, c2 | CRFsuite | ours | one thread | ratio | test, CRFsuite | test, ours | tagging speed "
        "| peak memory |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in read_results("crfsuite_speed.json"):
        memory = f"{row['peak_bytes']['ratio']:.2f} x" if "peak_bytes" in row else ""
        data = f"{row['set']}, {row['tokens']:,} tokens"
        lines.append(
            f"| {data} | {row['c1']:g}, {row['c2']:g} | {row['crfsuite']['seconds']:.0f} s "
            f"| {row['ours']['seconds']:.0f} s | {row['ours_one_thread']['seconds']:.0f} s | {row['ratio']:.2f} "
            f"| {row['test']['crfsuite']:.2f} | {row['test']['ours']:.2f} "
            f"| {row['tokens_per_second']['ratio']:.1f} x | {memory} |"
        )
    return lines


def classifier_table() -> list[str]:
    """Return the table of Gaussian process classification."""
    lines = [
        "**Single labels beside scikit-learn's GaussianProcessClassifier** (`python -m "
        "benchmarks.gaussian_process_speed`): `KernelClassifier` at rank 500, mode, Laplace approximation and "
        "evidence of both, one after the other on two cores; log-loss on 2,000 other samples.",
        "",
        "| samples | theirs | ours | times faster | log-loss, theirs | ours |",
        "|---|---|---|---|---|---|",
    ]
    for row in read_results("gaussian_process_speed.json"):
        ours, theirs = row["ours"], row["theirs"]
        beside = (
            ("", "", "")
            if theirs is None
            else (f"{theirs['seconds']:.1f} s", f"{row['times_faster']:.1f}", f"{theirs['log_loss']:.4f}")
        )
        lines.append(
            f"| {row['n_samples']:,} | {beside[0]} | {ours['seconds']:.1f} s | {beside[1]} | {beside[2]} "
            f"| {ours['log_loss']:.4f} |"
        )
    return lines


def engines_table() -> list[str]:
    """Return the table of engines: a GPU, a cluster, little memory."""
    lines = [
        "**Engines** (`python -m benchmarks.gpu_fit`, `dask_passes`, `dask_kills`, `out_of_core`; "
        "[docs/engines.md](docs/engines.md)): whole fits to a relative gap of 1e-3 on one GPU, and ratios to the "
        "threads of one process.",
        "",
        "| engine | data | figure |",
        "|---|---|---|",
    ]
    for row in read_results("gpu_fit.json"):
        error = f", test error {row['test_error']:.2%}" if "test_error" in row else ""
        lines.append(
            f"| torch, {row['device']} | {row['data']}, {row['n_positions']:,} positions, rank {row['rank']:,} "
            f"| {row['seconds']:.1f} s, {row['passes']:.0f} passes{error} |"
        )
    for row in read_results("dask_passes.json"):
        lines.append(
            f"| dask, two workers of one thread | netsurfp2-ss3, {row['cluster']['positions']:,} residues, sparse "
            f"linear + rank {row['rank']} | {row['ratio']:.2f} times the time per pass of two threads |"
        )
    kills = read_results("dask_kills.json")
    if kills:
        same = sum(row["same"] for row in kills)
        lines.append(
            "| dask, a worker killed at random | netsurfp2-ss3, a part "
            f"| {same} of {len(kills)} fits end at the same objective |"
        )
    stored = {row["keep"]: row for row in read_results("out_of_core.json")}
    if {"memory", "budget"} <= stored.keys():
        row = stored["budget"]
        ratio = row["seconds"] / stored["memory"]["seconds"]
        lines.append(
            f"| threads, memory of a quarter of the features | OCR letters, large, rank {row['rank']:,} "
            f"| {ratio:.2f} times the time in memory, peak {row['peak_bytes'] / 1e6:.0f} MB of "
            f"{row['feature_bytes'] / 4e6:.0f} |"
        )
    return lines


def seen_from_results(line: str) -> str:
    """Return a line of the README with its links as the page of all results has them."""
    return line.replace("](docs/results/", "](").replace("](docs/", "](../").replace("[docs/", "[")


def write_block(page: Path, lines: list[str]) -> None:
    """Put lines between the marks of a page."""
    before, rest = page.read_text(encoding="utf-8").split(BEGIN)
    _, after = rest.split(END)
    block = "\n".join(lines)
    page.write_text(f"{before}{BEGIN}\n{block}\n{END}{after}", encoding="utf-8")


def main() -> None:
    tables = [
        table()
        for table, name in (
            (accuracy_table, "ocr_small.json"),
            (best_table, "protein_stack.json"),
            (graphs_table, "snakes.json"),
            (tasks_table, "gpstruct.json"),
            (speed_table, "fit_speed.json"),
            (crfsuite_table, "crfsuite_speed.json"),
            (classifier_table, "gaussian_process_speed.json"),
            (engines_table, "gpu_fit.json"),
        )
        if read_results(name) or read_results(name, EXPERIMENTS)
    ]
    write_block(README, accuracy_table())
    write_block(PAGE, [seen_from_results(line) for table in tables for line in [*table, ""]][:-1])
    print(f"wrote a table to README.md, {len(tables)} to docs/results/index.md")


if __name__ == "__main__":
    main()
