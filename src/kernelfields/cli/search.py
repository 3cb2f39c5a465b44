"""Search for settings, ``train --search``: cross-validation on the training file, before the fit.

Kernels are names, several of them separated by commas; each stands for a grid around what its default would be:
rbf for values of gamma, poly for degrees. A kernel with parameters of its own, or a sum, is taken as it is. Ranks
are that of the settings and a quarter of it, unless told. What was chosen becomes part of the settings, which
repeat the fit without the search.
Fails: ValueError for settings that cannot be searched.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from kernelfields.cli.messages import Voice
from kernelfields.cli.models import (
    KERNEL_PARAMETERS,
    InputReader,
    build_estimator,
    is_dense,
    kernel_settings,
    named_kernel,
)
from kernelfields.cli.settings import RunSettings
from kernelfields.formats import SequenceFile


@dataclass(frozen=True)
class Choice:
    """The settings with what was found, how good it was, and the table of all candidates."""

    settings: RunSettings
    score: float
    table: Any
    interrupted: bool

    @property
    def words(self) -> str:
        """What was chosen, in a line."""
        chosen = self.settings
        parts = [f"kernel {chosen.kernel}"]
        parts += [f"{name} {value:g}" for name in KERNEL_PARAMETERS if (value := getattr(chosen, name)) is not None]
        return f"{', '.join(parts)}, rank {chosen.rank}, prior variance {chosen.prior_variance:g}"


def search_settings(settings: RunSettings, reader: InputReader, file: SequenceFile, voice: Voice) -> Choice:
    """Return the settings with kernel, rank and prior variance chosen by cross-validation."""
    from kernelfields import ChainCRFCV

    if not reader.has_transitions:
        raise ValueError("--search needs transitions, and the template has no B line: add a line B")
    kernels = _kernels(settings, is_dense(file.X))
    plain = replace(settings, prior_variance=1.0, **kernel_settings(named_kernel("linear", {})))
    ranks = settings.ranks or ((max(1, settings.rank // 4), settings.rank) if settings.rank else (0,))
    search = ChainCRFCV(
        build_estimator(plain, reader),
        kernels=kernels,
        prior_variances=settings.prior_variances,
        ranks=[rank or None for rank in ranks],
        cv=settings.folds,
        scoring=settings.scoring,
        refit=False,
        random_state=settings.random_state,
        verbose=voice.level,
    )
    with voice.hears_warnings():
        search.fit(file.X, file.y, file.weights)
    best = search.best_params_
    chosen = {"rank": best["rank"] or 0, "prior_variance": best["prior_variance"]}
    if best["kernel"] not in [each for each in kernels if not isinstance(each, str)]:
        chosen |= kernel_settings(best["kernel"])
    return Choice(replace(settings, **chosen), search.best_score_, search.table(), search.interrupted_)


def _kernels(settings: RunSettings, dense: bool) -> list[Any]:
    """Return the kernels to choose from: names, which stand for grids, or one kernel as it is."""
    parameters = settings.part("kernel")
    given = any(value is not None for value in parameters.values())
    if settings.kernel == "auto" and not given:
        return ["poly", "rbf"] if dense else ["linear", "poly", "rbf"]
    names = [name.strip() for name in settings.kernel.split(",")]
    if given or "+" in settings.kernel:
        if len(names) > 1 or settings.kernel == "auto":
            raise ValueError(
                "with --search, parameters and sums of kernels are for one --kernel: name several without them, "
                "and each is searched by itself"
            )
        return [named_kernel(settings.kernel, parameters)]
    return list(names)
