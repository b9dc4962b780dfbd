/* The way of a probe over a veth pair without the work of `vtare rtt --engine xdp`: a frame is sent, turned round and
 * dropped as it is. Built as crates/bpf/build does it: clang-14 -target bpf -mcpu=v3 -O2 -g0 -I ../../crates/bpf
 * -ffreestanding -nostdinc -c bare.c -o bare.bpf.o */
#include "vtare_bpf.h"

LICENSE;

struct shared {
	u64 interface;
	u64 dropped;
};

MAP shared_map = { MAP_ARRAY, 4, sizeof(struct shared), 1, MAP_MMAPABLE };

SECTION("xdp.frags/send") int send(struct xdp_context *context)
{
	u32 zero = 0;
	struct shared *shared = map_lookup(&shared_map, &zero);
	(void)context;
	return shared ? redirect(shared->interface, 0) : XDP_ABORTED;
}

SECTION("xdp.frags/bounce") int bounce(struct xdp_context *context)
{
	return redirect(context->ingress_interface, 0);
}

SECTION("xdp.frags/sink") int sink(struct xdp_context *context)
{
	u32 zero = 0;
	struct shared *shared = map_lookup(&shared_map, &zero);
	(void)context;
	if (shared)
		shared->dropped++;
	return XDP_DROP;
}
