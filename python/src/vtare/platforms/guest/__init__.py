"""Guests that the lab boots itself: the image, the kernel it is booted with, and the control channel into it.

What starts the machine around it (QEMU, Xen) is a file of its own beside this package. See docs/internals/guests.md.
"""
