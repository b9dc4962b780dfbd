"""What the JSON documents of the lab hold: each is declared here, built as declared, and its JSON Schema made of that.

A value that may be None is not estimable or not reported where it is. Names have their unit.
"""
