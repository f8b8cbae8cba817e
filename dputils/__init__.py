"""dputils: the thin helper module of the book, one file per subject.

Each name is introduced in a chapter; the chapter holds the textbook version of an algorithm and
shows that the version here agrees with it. A file imports only from those below it. From the ground
up: what is refused, read and drawn (`checks`, `private`, `bits`, `inversion`, `noise`);
`sensitivity`; `accounting`, with the ledger on top; a file for each mechanism; `samples`; private
choices (`gaps`, `selection`); audits and attacks (`law_tests`, `misses`, `audit`, `attacks`);
`book`, the machinery of a chapter; and the doors `run` and `sweep`.
"""
