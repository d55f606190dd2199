"""From maps to changed images: order, what is removed, what it becomes."""

from uproar.removal.fill import Around, filled, fills
from uproar.removal.levels import Levels
from uproar.removal.order import count, ranks, removed_at, tie_share

__all__ = ["Around", "Levels", "count", "filled", "fills", "ranks", "removed_at", "tie_share"]
