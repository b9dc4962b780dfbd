"""Is B slower than A, on a noisy machine: commands run in pairs, until the answer is known (docs/guide/change.md).

`commands` reads them, `trials` runs them through the binary, `figures` reads what is compared of each, `designs`
chooses how they are paired, `compare` goes on until the answer is known, `verdict` puts it into words.
"""
