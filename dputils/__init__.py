"""dputils: the thin helper module of the book, one file per subject.

Each name is introduced in a chapter; the chapter holds the textbook version of the algorithm and shows that the version here
agrees with it. Files build on one another from the ground up: checks, data, noise, accounting, mechanisms, audit, sources,
chapter, plots, run, sweep.
"""
