"""dputils: the thin helper module of the book, one file per subject.

Each name is introduced in a chapter; the chapter holds the textbook version of an algorithm and
shows that the version here agrees with it. A file imports only from those before it: checks, data,
noise, _conversions, curves, _losses, composition, _filters, accounting, sensitivity, mechanisms,
_scales, gaussian, randomized_response, selection, audit, sources, parameters, chapter, plots, run,
sweep. The four with an underscore are the inner halves of curves, composition, accounting and
gaussian: their names are used through these."""
