"""Figures over time: what is followed, where its level changed, and that in words.

`model` loads no library of numbers: the process of `vtare watch` that waits between rounds uses it.
"""
