/* What vtare_sys::bpf is tested with: each kind of map, reference and call that its loader knows. */
#include "vtare_bpf.h"

LICENSE;

MAP words = { MAP_ARRAY, 4, 16, 3, MAP_MMAPABLE };
MAP table = { MAP_HASH, 8, 4, 2, 0 };
MAP records = { MAP_RINGBUF, 0, 0, 4096, 0 };

SUBPROGRAM u64 mix(u64 a, u64 b)
{
	return a * 31 ^ b << 7;
}

static int count(u32 index, u64 *sum)
{
	*sum = mix(*sum, index);
	return *sum > 1ull << 60;
}

/* Copies a frame's first byte into words[1][1], the fold of 5 numbers into words[1][0], a record of both into the ring.
 */
SECTION("xdp") int selftest(struct xdp_context *context)
{
	u8 *data = (u8 *)(u64)context->data, *end = (u8 *)(u64)context->data_end;
	u32 key = 1;
	u64 *entry = map_lookup(&words, &key);
	if (!entry || data + 1 > end)
		return XDP_ABORTED;
	u64 sum = 1;
	loop(5, count, &sum, 0);
	entry[0] = sum;
	entry[1] = *data;
	u64 record[2] = { sum, *data };
	ring_output(&records, record, *data == 9 ? 9 : 16, 0);
	u64 name = *data;
	u32 *known = map_lookup(&table, &name);
	if (known)
		__sync_fetch_and_add(known, 1);
	*data = 7;
	return known ? XDP_TX : XDP_PASS;
}

SECTION("tc") int selftest_tc(struct tc_context *context)
{
	u32 key = 2;
	u64 *entry = map_lookup(&words, &key);
	if (entry)
		__sync_fetch_and_add(entry, context->len);
	return TC_NEXT;
}
