"""The workshop: run, normalise and check notebooks; set up and lock the environment. No chapter
imports from here.
"""
