"""What workers say to each other in operators along the axis that is cut: one file per family."""

from tilewise.engine.talks import extremes, fetching, scanning, selecting, sorting, writing
from tilewise.engine.talks.talk import Parts, Scene, Talk

__all__ = ["Parts", "Scene", "Talk", "extremes", "fetching", "scanning", "selecting", "sorting", "writing"]
