/* Generator and analyser of `vtare throughput`: one program sends numbered, stamped frames of many flows on an absolute
 * schedule, one counts them where they come out again. docs/methods/throughput.md */
#include "pace.h"

LICENSE;

enum { TAG_BYTE = 18 };
/* Of the histogram: as crates/methods/src/histogram.rs. */
enum { OCTAVE_BITS = 6, BUCKETS = (64 - OCTAVE_BITS + 1) << OCTAVE_BITS };

/* Behind the UDP header, in this machine's byte order: the frame comes back to it. */
enum { AT_RUN = 42, AT_FLOW = 46, AT_SEQUENCE = 48, AT_SENT = 52 };

/* What the trial is, and what came of it. */
struct setup {
	u64 start_ns;
	u64 packets;
	/* Frame n is due n * pace_ns / pace_packets after the start. */
	u64 pace_ns;
	u64 pace_packets;
	/* A frame later than this does not leave. */
	u64 catch_up_ns;
	/* How long a call may wait for a frame's time before it gives the CPU's other soft interrupts their turn. */
	u64 slice_ns;
	u64 interface;
	u64 flows;
	u64 slots;
	u64 run;
	/* Whose latency is reported alone (RFC 2544, 26.2). */
	u64 tagged;
	/* Two clock readings further apart than this are a gap. */
	u64 gap_ns;
	u64 stop;
	/* From frame `step` on, which is due at step_ns, step_packets are due in each pace_ns. */
	u64 step;
	u64 step_ns;
	u64 step_packets;
	/* Of the generator. */
	u64 next;
	u64 skipped;
	u64 looked_ns;
	u64 lost_ns;
	u64 longest_ns;
	u64 _gap2[3];
	/* Of the analyser. */
	u64 received;
	u64 stale;
	u64 wrong;
	u64 tagged_ns;
	u64 early;
	u64 _gap3[3];
};

struct tally {
	u64 received;
	u64 duplicates;
	u64 reordered;
	/* Above the highest number that came. */
	u64 above;
	u64 sum_ns;
	u64 most_ns;
	u64 least_ns;
	u64 _gap;
};

struct flow {
	u8 headers[48];
};

MAP setup_map = { MAP_ARRAY, 4, sizeof(struct setup), 1, MAP_MMAPABLE };
/* Ethernet, IPv4 and UDP headers of each flow, 42 B. */
MAP flows = { MAP_ARRAY, 4, sizeof(struct flow), 1, MAP_MMAPABLE };
/* The flow of each frame in turn. */
MAP slots = { MAP_ARRAY, 4, 8, 1, MAP_MMAPABLE };
/* Frames of each flow that left. */
MAP sent = { MAP_ARRAY, 4, 8, 1, MAP_MMAPABLE };
MAP tallies = { MAP_ARRAY, 4, sizeof(struct tally), 1, MAP_MMAPABLE };
/* Latencies of each flow. */
MAP latencies = { MAP_ARRAY, 4, 8, BUCKETS, MAP_MMAPABLE };
/* A bit for each frame that came, or never left. */
MAP seen = { MAP_ARRAY, 4, 8, 1, MAP_MMAPABLE };

struct turn {
	struct setup *setup;
	u64 now;
	u64 due;
	u64 until;
	u64 next;
	u32 send;
};

INLINE u64 due(struct setup *setup, u64 number)
{
	if (number < setup->step)
		return DUE(setup, number);
	return setup->step_ns + (number - setup->step) * setup->pace_ns / setup->step_packets;
}

static int wait(u32 round, struct turn *turn)
{
	struct setup *setup = turn->setup;
	u64 now = ktime_ns(), between = now - turn->now;
	(void)round;
	if (unlikely(between >= setup->gap_ns) && turn->now) {
		setup->lost_ns += between;
		if (between > setup->longest_ns)
			setup->longest_ns = between;
	}
	turn->now = now;
	if (turn->next >= setup->packets || *(volatile u64 *)&setup->stop)
		return 1;
	if (now < turn->due)
		return now >= turn->until;
	if (now - turn->due <= setup->catch_up_ns) {
		turn->send = 1;
		return 1;
	}
	setup->skipped++;
	u32 word = turn->next >> 6;
	u64 *bits = map_lookup(&seen, &word);
	if (bits)
		__sync_fetch_and_or(bits, 1ull << (turn->next & 63));
	turn->next++;
	turn->due = due(setup, turn->next);
	return now >= turn->until;
}

SECTION("xdp.frags/generate") int generate(struct xdp_context *context)
{
	u8 *data = (u8 *)(u64)context->data, *end = (u8 *)(u64)context->data_end;
	u32 zero = 0;
	struct setup *setup = map_lookup(&setup_map, &zero);
	if (!setup || data + HEADERS_BYTE + TAG_BYTE > end)
		return XDP_ABORTED;
	struct turn turn = { .setup = setup, .next = setup->next, .now = setup->looked_ns };
	if (turn.next >= setup->packets)
		return XDP_DROP;
	turn.due = due(setup, turn.next);
	turn.until = ktime_ns() + setup->slice_ns;
	loop(1 << 23, wait, &turn, 0);
	setup->looked_ns = turn.now;
	if (!turn.send) {
		setup->next = turn.next;
		return XDP_DROP;
	}
	u32 slot = setup->slots ? turn.next % setup->slots : 0;
	u64 *chosen = map_lookup(&slots, &slot);
	if (!chosen)
		return XDP_ABORTED;
	u32 number = (u32)*chosen;
	struct flow *flow = map_lookup(&flows, &number);
	u64 *count = map_lookup(&sent, &number);
	if (!flow || !count)
		return XDP_ABORTED;
	put_headers(data, flow->headers);
	AT(u32, data + AT_RUN) = (u32)setup->run;
	AT(u16, data + AT_FLOW) = (u16)number;
	AT(u32, data + AT_SEQUENCE) = (u32)turn.next;
	AT(u64, data + AT_SENT) = turn.now;
	*count += 1;
	setup->next = turn.next + 1;
	return redirect(setup->interface, 0);
}

INLINE u32 bucket_of(u64 ns)
{
	u32 bits = 0;
	u64 left = ns;
	if (left >> 32) { bits += 32; left >>= 32; }
	if (left >> 16) { bits += 16; left >>= 16; }
	if (left >> 8) { bits += 8; left >>= 8; }
	if (left >> 4) { bits += 4; left >>= 4; }
	if (left >> 2) { bits += 2; left >>= 2; }
	if (left >> 1) bits += 1;
	u32 octave = bits > OCTAVE_BITS ? bits - OCTAVE_BITS : 0;
	return (octave << OCTAVE_BITS) + (u32)(ns >> octave);
}

SECTION("xdp.frags/count") int count(struct xdp_context *context)
{
	u64 now = ktime_ns();
	u8 *data = (u8 *)(u64)context->data, *end = (u8 *)(u64)context->data_end;
	u32 zero = 0;
	struct setup *setup = map_lookup(&setup_map, &zero);
	if (!setup || data + HEADERS_BYTE + TAG_BYTE > end)
		return XDP_PASS;
	struct ethernet *ethernet = (void *)data;
	struct ipv4 *ip = (void *)(data + 14);
	struct udp *udp = (void *)(data + 34);
	if (ethernet->kind != BIG16(KIND_IPV4) || ip->version_words != 0x45 || ip->protocol != PROTOCOL_UDP)
		return XDP_PASS;
	u32 number = AT(u16, data + AT_FLOW), sequence = AT(u32, data + AT_SEQUENCE);
	struct flow *flow = map_lookup(&flows, &number);
	if (!flow || udp->from != AT(u16, flow->headers + 34) || udp->to != AT(u16, flow->headers + 36))
		return XDP_PASS;
	if (AT(u32, data + AT_RUN) != (u32)setup->run) {
		__sync_fetch_and_add(&setup->stale, 1);
		return XDP_DROP;
	}
	/* Addresses and length are as they were sent. */
	if (ip->from != AT(u32, flow->headers + 26) || ip->to != AT(u32, flow->headers + 30) ||
	    ip->byte != AT(u16, flow->headers + 16) || sequence >= setup->packets) {
		__sync_fetch_and_add(&setup->wrong, 1);
		return XDP_DROP;
	}
	u32 word = sequence >> 6, cell;
	u64 bit = 1ull << (sequence & 63), *bits = map_lookup(&seen, &word);
	struct tally *tally = map_lookup(&tallies, &number);
	if (!bits || !tally)
		return XDP_ABORTED;
	if (__sync_fetch_and_or(bits, bit) & bit) {
		__sync_fetch_and_add(&tally->duplicates, 1);
		return XDP_DROP;
	}
	__sync_fetch_and_add(&setup->received, 1);
	__sync_fetch_and_add(&tally->received, 1);
	if (sequence + 1ull < tally->above)
		__sync_fetch_and_add(&tally->reordered, 1);
	else
		tally->above = sequence + 1ull;
	u64 left = AT(u64, data + AT_SENT);
	if (now < left) {
		__sync_fetch_and_add(&setup->early, 1);
		return XDP_DROP;
	}
	u64 latency = now - left;
	if (sequence == (u32)setup->tagged)
		setup->tagged_ns = latency;
	__sync_fetch_and_add(&tally->sum_ns, latency);
	if (latency > tally->most_ns)
		tally->most_ns = latency;
	if (latency < tally->least_ns)
		tally->least_ns = latency;
	cell = number * BUCKETS + bucket_of(latency);
	u64 *here = map_lookup(&latencies, &cell);
	if (here)
		__sync_fetch_and_add(here, 1);
	return XDP_DROP;
}
