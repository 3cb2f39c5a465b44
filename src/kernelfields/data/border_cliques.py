"""Clique sets of the labels at the borders of a sequence.

StartCliques   (y_1)  or (x_1, y_1)   u(y) = f(x_1, y)   added to the first position of each sequence
EndCliques     (y_T)  or (x_T, y_T)   u(y) = f(x_T, y)   added to the last
"""

from __future__ import annotations

import numpy as np

from kernelfields.data.chains import Packed
from kernelfields.data.cliques import CliqueSet
from kernelfields.numerics.docstrings import complete_docstring
from kernelfields.numerics.registry import SETTINGS


@SETTINGS.register("start cliques")
@complete_docstring
class StartCliques(CliqueSet):
    """The first label of each sequence, with the inputs there if a kernel is given.

    See Also
    --------
    EndCliques : The last label.

    Examples
    --------
    >>> import numpy as np
    >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
    >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
    >>> from kernelfields import ChainCRF, EdgeCliques, NodeCliques, StartCliques
    >>> crf = ChainCRF(cliques=[NodeCliques("rbf"), EdgeCliques(), StartCliques()], random_state=0).fit(X, y)
    >>> crf.coef_["start"].shape
    (1, 2)
    """

    default_name = "start"

    def positions(self, data: Packed) -> np.ndarray | None:
        """Return the first position of each sequence.

        Parameters
        ----------
        data : Packed
            The data.

        Returns
        -------
        ndarray (n,)
            The rows of these positions.
        """
        return np.asarray(data.starts)


@SETTINGS.register("end cliques")
@complete_docstring
class EndCliques(CliqueSet):
    """The last label of each sequence, with the inputs there if a kernel is given.

    See Also
    --------
    StartCliques : The first label.

    Examples
    --------
    >>> import numpy as np
    >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
    >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
    >>> from kernelfields import ChainCRF, EdgeCliques, EndCliques, NodeCliques
    >>> crf = ChainCRF(cliques=[NodeCliques("rbf"), EdgeCliques(), EndCliques()], random_state=0).fit(X, y)
    >>> crf.coef_["end"].shape
    (1, 2)
    """

    default_name = "end"

    def positions(self, data: Packed) -> np.ndarray | None:
        """Return the last position of each sequence.

        Parameters
        ----------
        data : Packed
            The data.

        Returns
        -------
        ndarray (n,)
            The rows of these positions.
        """
        return np.asarray(data.ends)
