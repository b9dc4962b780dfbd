"""What each platform costs a command: the same command on the host and on every platform here (docs/guide/weigh.md).

`layer` offers the host's root with a private layer, `launchers` start the command on each platform, `runner` measures
it from inside and outside, `weighing` does so until the answer is known, `costs` and `why` explain it, `verdict` ranks
the platforms and puts the answer into words. `ab` compares.
"""
