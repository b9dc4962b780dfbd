"""What can be measured on this machine: instruments on platforms, what is missing, and the command that gets it.

`machine` looks at what instruments need of the kernel and of rights, `places` at platforms, `plans` at what one plan
needs, `ways` finds commands.
"""
