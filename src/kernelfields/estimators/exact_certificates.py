"""Certificates of fields on graphs: there where inference is exact, refused by name where it is not."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from kernelfields.posterior import Certificate


class ExactCertificates:
    """Expects ``inference_`` and ``_certificates``, (span, rkhs) or None, of a fitted estimator."""

    inference_: Any
    _certificates: tuple[Certificate, Certificate] | None

    @property
    def certificate_(self) -> Certificate:
        """How far the fit can be from the best one in the span of its basis; only for exact inference."""
        return self._certified()[0]

    @property
    def rkhs_certificate_(self) -> Certificate:
        """How far the fit can be from the best one in the whole RKHS; only for exact inference."""
        return self._certified()[1]

    def _certified(self) -> tuple[Certificate, Certificate]:
        check_is_fitted(self, "model_")
        if self._certificates is None:
            raise AttributeError(
                f"no certificate: the labels were inferred by {self.inference_.method!r}, which is approximate"
            )
        return self._certificates
