"""Every sentence that the lab prints for people, by product: read these files, and you have read all of them.

A function takes text and numbers and returns one sentence; it decides nothing but singular and plural. What is measured
decides elsewhere which sentence is printed. `*_words.py` of `papers/claims` hold those about published claims.
"""
