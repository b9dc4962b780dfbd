"""`vtare watch`: a plan repeated for months, its figures over time, and alerts where one of them has changed.

The process that waits between rounds loads no library of numbers: each round is a process of its own (`round`).
"""
