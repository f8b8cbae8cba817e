"""The machinery of a chapter: its parameters, opening, results, figures, data, reruns."""
