/* What the generators of `vtare rtt` and `vtare throughput` share: an absolute schedule, and headers that stand ready
 * in a map. */
#pragma once
#include "vtare_bpf.h"

/* When packet `number` is due. `setup` has start_ns, pace_ns and pace_packets. */
#define DUE(setup, number) ((setup)->start_ns + (number) * (setup)->pace_ns / (setup)->pace_packets)

/* Written anew each time: the frame comes back from the network as it was left there. */
INLINE void put_headers(u8 *data, const u8 *headers)
{
	AT(u64, data) = AT(u64, headers);
	AT(u64, data + 8) = AT(u64, headers + 8);
	AT(u64, data + 16) = AT(u64, headers + 16);
	AT(u64, data + 24) = AT(u64, headers + 24);
	AT(u64, data + 32) = AT(u64, headers + 32);
	AT(u16, data + 40) = AT(u16, headers + 40);
}
