"""A plan: TOML in, checked dataclasses out.

A plan (`schema = "vtare.plan/1"`) asks one question with one or more experiments. An experiment runs one instrument
with fixed parameters under every combination of its factors' levels. A factor named like a parameter of the instrument
sets that parameter; `load` and `platform` are the lab's own factors. An `rtt` or `avb` experiment that names no `peer`
runs between two hosts that the lab sets up, and has further factors for their roles (TWO_HOST_FACTORS), those of `avb`
also for the path between them (PATH_FACTORS). A `throughput` experiment that names no `tx_port` runs through guests
that the lab sets up (GUEST_FACTORS); `platform` is then what the guests are. Every key is checked: an error names file,
line, column, key path, the value found and the values wanted. `keys` and `factors` declare what may be written; the
reader and the JSON Schema for editors (`schema`) are made of them.
"""
