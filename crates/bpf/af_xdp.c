/* The receiving end of `vtare rtt --engine af_xdp`: gives the replies of one session, stamped, to its AF_XDP socket.
 * docs/internals/xdp.md */
#include "wire.h"

LICENSE;

/* Written by the daemon before the run. */
struct setup {
	/* Where replies come from and where they go, as they lie in the frame. */
	u64 peer_address;
	u64 local_address;
	u64 peer_port;
	u64 local_port;
	/* The receive queue that the socket is bound to. */
	u64 queue;
	u64 _gap[3];
	/* Of the program: replies that another queue got, which no socket of one queue can take; and those that went
	 * without a stamp. */
	u64 elsewhere;
	u64 unstamped;
};

MAP setup_map = { MAP_ARRAY, 4, sizeof(struct setup), 1, MAP_MMAPABLE };
/* The socket, at 0. */
MAP sockets = { MAP_XSK, 4, 4, 1, 0 };

SECTION("xdp.frags/to_socket") int to_socket(struct xdp_context *context)
{
	u64 now = ktime_ns();
	u32 zero = 0;
	struct setup *setup = map_lookup(&setup_map, &zero);
	struct datagram datagram;
	if (!setup || !parse_datagram(context, &datagram))
		return XDP_PASS;
	if (datagram.ip->from != (u32)setup->peer_address || datagram.ip->to != (u32)setup->local_address ||
	    datagram.udp->from != (u16)setup->peer_port || datagram.udp->to != (u16)setup->local_port)
		return XDP_PASS;
	if (context->queue != (u32)setup->queue) {
		__sync_fetch_and_add(&setup->elsewhere, 1);
		return XDP_PASS;
	}
	/* The stamp lies just before the frame, which no pointer to it survives. */
	if (adjust_meta(context, -8)) {
		__sync_fetch_and_add(&setup->unstamped, 1);
	} else {
		u8 *meta = (u8 *)(u64)context->data_meta, *data = (u8 *)(u64)context->data;
		if (meta + 8 <= data)
			AT(u64, meta) = now;
	}
	/* Without a socket the network stack has it. */
	return redirect_map(&sockets, 0, XDP_PASS);
}
