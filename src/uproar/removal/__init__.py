"""From maps to changed images: order, what is removed, what it becomes."""

from uproar.removal.fill import FillContext, filled, fills
from uproar.removal.order import count, ranks, removed_at, tie_share

__all__ = ["FillContext", "count", "filled", "fills", "ranks", "removed_at", "tie_share"]
