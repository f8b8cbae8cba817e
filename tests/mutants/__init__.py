"""Changes of the code and the book that some test must notice: `make mutants`, not part of the
tests.

`changes.toml` lists them: a file, a text in it, what takes its place, and the tests that must turn
red. Each is applied alone, in a copy of the tree. A change that no test notices has survived; a
text that is gone, or stands there twice, is an error: the list is kept with the code."""
