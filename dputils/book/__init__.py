"""The machinery of a chapter: its parameters, opening and results, figures, sources, data, reruns."""
