"""What stands between the ends of a measurement: made, shaped, counted and removed.

`protocol` states what every topology does, and what two hosts with something between them do besides. Each kind is a
module: `links` (namespaces of this machine), `named_hosts` (machines that a plan names), `forwarding` (guests between
two ports of a tester, with `guest_slots`, `forwarding_guests` and `switches`). `path` is the path as data,
`link_counter`, `clock_relation` and `truth` state what it carried, `instance_factors` what instances are given.
"""
