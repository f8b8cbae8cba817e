"""dputils: the thin helper module of the book, one file per subject.

Each name is introduced in a chapter; the chapter holds the textbook version of an algorithm and shows that the
version here agrees with it. A file imports only from those before it: checks, data, noise, curves, _losses,
composition, _filters, accounting, sensitivity, mechanisms, gaussian, randomized_response, selection, audit, sources,
parameters, chapter, plots, run, sweep. The two with an underscore are the inner halves of composition and accounting.
"""
