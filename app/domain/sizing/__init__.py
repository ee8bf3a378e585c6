"""Sizing: how much GPU memory a model needs for a task, and which GPU classes have it.

`shapes` describes a model, `configs` reads a Hugging Face `config.json`, `known_models` names some models,
`memory` has the formulas, and `fits` compares the result with the GPUs on offer.
"""
