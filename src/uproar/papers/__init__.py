"""The papers that are reproduced, a folder each: claims, figures, published numbers, recipes and study files.

Registries import them by pattern (`uproar.papers.*.claims`), so that no other part of the package names a paper. A
plug-in declares another paper with the same decorators: `paper`, `claim`, `figure` and `recipe` of `uproar.extend`.
"""
