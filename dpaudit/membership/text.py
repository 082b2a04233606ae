"""Text: a small causal model of tokens to audit, canaries of tokens, and the exposure of a secret.

Any training is a target, of language models too: records are texts, or rows of token numbers, and
the score of a record is its log-likelihood.  :class:`TokenTraining` is one that needs NumPy alone
and trains in seconds: the next token by a softmax over weights of the tokens before it.

Sources: Carlini, Liu, Erlingsson, Kos and Song (2019), exposure; Panda, Tang, Nasr, Choquette-Choo
and Mittal (2025), canaries that end in a token of their own.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax

from dpaudit.errors import InvalidParameter
from dpaudit.membership.data import Data, FloatArray

IntArray = npt.NDArray[np.int64]


def token_windows(text: str, length: int, vocabulary: int) -> Data:
    """All stretches of ``length`` words of a text that do not overlap, as rows of token numbers.

    Tokens are the ``vocabulary`` - 1 commonest words; all other words are the last token.
    Errors: InvalidParameter for a text shorter than one stretch.
    """
    words = re.findall(r"\w+", text.lower())
    if len(words) < length:
        raise InvalidParameter(f"text: {len(words)} words, expected at least {length}")
    common = [word for word, _ in Counter(words).most_common(vocabulary - 1)]
    number = {word: place for place, word in enumerate(common)}
    tokens = np.array([number.get(word, vocabulary - 1) for word in words])
    return Data(tokens[: len(words) // length * length].reshape(-1, length))


def new_token_canaries(data: Data, count: int, first: int, rng: np.random.Generator) -> Data:
    """``count`` records of token numbers, each with a last token of its own: first, first + 1, ...

    Errors: InvalidParameter for more canaries than records.
    """
    if not 1 <= count <= len(data):
        raise InvalidParameter(f"count = {count}: expected from 1 to {len(data)} records")
    rows = data.features[rng.permutation(len(data))[:count]].copy()
    rows[:, -1] = first + np.arange(count)
    return Data(rows)


def secret_exposure(scores: npt.ArrayLike, place: int = 0) -> float:
    """The exposure of a secret in bits: log2 of the number of candidates over the secret's rank.

    ``scores``: log-likelihoods of all candidates, (candidates,), the secret's at ``place``.  Ties
    count against the secret.  Errors: InvalidParameter for scores that are not finite, or a place
    that is not there.
    """
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1 or not np.isfinite(values).all():
        raise InvalidParameter(f"scores: shape {values.shape}, expected finite numbers in one row")
    if not 0 <= place < values.size:
        raise InvalidParameter(f"place = {place}: expected from 0 to {values.size - 1}")
    return math.log2(values.size / np.count_nonzero(values >= values[place]))


@dataclass(frozen=True)
class TokenTraining:
    """Gradient descent on all records; a model is weights (context, vocabulary, vocabulary).

    The logits of the token at a position are the sum of the weights' rows of the ``context`` tokens
    before it.  A record's loss is summed over its positions.  With a ``noise_multiplier`` each
    record's gradient is clipped to norm 1, and every step adds Gaussian noise of that deviation:
    ``steps`` rounds of a Gaussian mechanism under add/remove.

    Errors: InvalidParameter for records that are no rows of token numbers below ``vocabulary``, of
    more than ``context`` tokens.
    """

    vocabulary: int
    context: int = 2
    steps: int = 20
    rate: float = 1.0
    noise_multiplier: float | None = None

    def fit(self, records: Any, rng: np.random.Generator) -> FloatArray:
        tokens = self._tokens(records)
        weights = np.zeros((self.context, self.vocabulary, self.vocabulary))
        for _ in range(self.steps):
            update = self._gradient(weights, tokens)
            if self.noise_multiplier is not None:
                update = update + rng.normal(0, self.noise_multiplier, weights.shape)
            weights = weights - self.rate * update
        return weights

    def log_chances(self, weights: FloatArray, records: Any) -> FloatArray:
        """Log-likelihoods of all tokens at each predicted position, (n, positions, vocabulary)."""
        return np.asarray(log_softmax(self._logits(weights, self._tokens(records)), axis=2))

    def score(self, weights: FloatArray, records: Any) -> FloatArray:
        """The log-likelihood of each record, (n,)."""
        tokens, log_chances = self._tokens(records), self.log_chances(weights, records)
        return np.asarray(
            np.take_along_axis(log_chances, tokens[:, self.context :, None], axis=2).sum(
                axis=(1, 2)
            )
        )

    def _tokens(self, records: Any) -> IntArray:
        tokens = np.asarray(records.features)
        if tokens.ndim != 2 or tokens.dtype.kind not in "iu" or tokens.shape[1] <= self.context:
            raise InvalidParameter(
                f"records: {tokens.dtype} of shape {tokens.shape}, expected token numbers (n, more "
                f"than {self.context})"
            )
        if tokens.size and not 0 <= tokens.min() <= tokens.max() < self.vocabulary:
            raise InvalidParameter(
                f"records: a token number is outside 0 to {self.vocabulary - 1}; give a larger "
                "vocabulary"
            )
        return tokens.astype(np.int64)

    def _logits(self, weights: FloatArray, tokens: IntArray) -> FloatArray:
        return np.asarray(
            sum(rows[before] for rows, before in zip(weights, self._before(tokens), strict=True))
        )

    def _before(self, tokens: IntArray) -> list[IntArray]:
        """The tokens at each distance before each position that is predicted, (n, positions)."""
        width = tokens.shape[1]
        return [tokens[:, self.context - k : width - k] for k in range(1, self.context + 1)]

    def _gradient(self, weights: FloatArray, tokens: IntArray) -> FloatArray:
        """The sum of the records' gradients, clipped where noise is added."""
        from scipy.sparse import csr_matrix

        residual = np.exp(log_softmax(self._logits(weights, tokens), axis=2))
        np.put_along_axis(
            residual,
            tokens[:, self.context :, None],
            np.take_along_axis(residual, tokens[:, self.context :, None], axis=2) - 1,
            axis=2,
        )
        before = self._before(tokens)
        if self.noise_multiplier is not None:
            inner = residual @ residual.transpose(0, 2, 1)
            alike = sum((row[:, :, None] == row[:, None, :]).astype(float) for row in before)
            norms = np.sqrt((inner * alike).sum(axis=(1, 2)))
            residual *= np.minimum(1, 1 / np.maximum(norms, 1e-12))[:, None, None]
        flat = residual.reshape(-1, self.vocabulary)
        places = np.arange(len(flat))
        parts = [
            csr_matrix((np.ones(len(flat)), (row.ravel(), places)), (self.vocabulary, len(flat)))
            @ flat
            for row in before
        ]
        return np.stack(parts)
