"""Where the time of a round trip goes: samples of `vtare rtt` joined with what was captured on the hosts.

A capture point on the sender's host side sees each request leave and its reply come back; one on the responder's host
side sees the request arrive and the reply leave. Joined packet by packet, a round-trip time falls into pieces that add
up to it exactly:

    sender_overhead     rtt - (reply - request at the sender's host side)
    wire                the latter - (reply - request at the responder's host side)
    responder_overhead  the latter - turnaround
    turnaround          as the responder reports it

Each is a difference of differences on one clock, so the two hosts need no common time, and the stamps of a capture may
be on another clock than those of the samples. The wire's two ways do need one: where the hosts' clocks were compared
(`vtare.topology.clock_relation`) they are known to within the bound of that comparison.
"""
