"""Chains whose labels meet in n-grams: automata, their compiled passes, beliefs and answers."""
