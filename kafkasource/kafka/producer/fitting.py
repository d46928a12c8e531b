"""How large a batch of a topic may be after its brokers have refused one.

A broker's limit counts bytes as they are sent, and a buffer has a size before compression. So this keeps a size that
brokers take, as sent, and how well the topic's records compress at the moment. As in Kafka's
CompressionRatioEstimator, batches shrink at once where records compress worse, and grow by small steps where they
compress better: a batch that is too large is sent twice.
"""

from __future__ import annotations

from dataclasses import dataclass

_STEP = 0.005  # of the ratio, a batch; Kafka's COMPRESSION_RATIO_IMPROVING_STEP
_LEAST_BYTES = 1024


@dataclass(frozen=True, slots=True)
class Fitting:
    """The known sizes of a topic. Immutable: the sender's thread replaces it while a task's thread reads it."""

    sent_bytes: float  # a batch of this size, as it is sent, is taken
    ratio: float  # size as sent / size before compression

    @classmethod
    def halved(cls, plain_bytes: int, sent_bytes: int, half: int, before: Fitting | None) -> Fitting:
        """After a batch of these sizes was refused; `half`: the limit of its pieces before compression."""
        ratio = sent_bytes / plain_bytes
        fits = max(half, _LEAST_BYTES) * ratio
        return cls(fits if before is None else min(fits, before.sent_bytes), ratio)

    @property
    def plain_bytes(self) -> int:
        """The largest size before compression."""
        return max(int(self.sent_bytes / self.ratio), _LEAST_BYTES)

    def seen(self, plain_bytes: int, sent_bytes: int) -> Fitting:
        """After a batch was encoded. A small one says nothing of how well large ones compress."""
        if 2 * plain_bytes < self.plain_bytes:
            return self
        return Fitting(self.sent_bytes, max(sent_bytes / plain_bytes, self.ratio - _STEP))
