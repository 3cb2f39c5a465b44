"""Training labels that break the scheme of their entities, mended with a warning unless the scheme is strict."""

from __future__ import annotations

from typing import Any

from kernelfields.data.constraints import Constraints, find_scheme
from kernelfields.data.reading import LabelForm, is_sequence, materialize_iterator
from kernelfields.data.spans import rewrite_labels
from kernelfields.numerics.user_warnings import warn_user
from kernelfields.numerics.wording import inflect


def mend_labels(rules: Any, y: Any, *, warn: bool) -> Any:
    """Return labels that keep the scheme of constraints, from labels in any form; ``warn`` of changed labels."""
    constraints = Constraints.parse(rules)
    if constraints.scheme is None or constraints.strict:
        return y
    y = materialize_iterator(y)
    if isinstance(y, LabelForm) or not is_sequence(y) or not all(item is None or is_sequence(item) for item in y):
        return y
    mended, changed = rewrite_labels(y, find_scheme(constraints.scheme))
    if not changed:
        return y
    if warn:
        first, several = changed[0], len(changed) > 1
        warn_user(
            f"{inflect(len(changed), 'label')} of y break{'s' * (not several)} the scheme "
            f"{constraints.scheme!r} and {'are' if several else 'is'} mended, the first at sequence "
            f"{first.sequence}, position {first.position}: {first.label!r} is read as {first.new!r}. Constraints("
            f"scheme={constraints.scheme!r}, strict=True) makes this an error",
        )
    return mended
