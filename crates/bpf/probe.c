/* The sending end of `vtare rtt --engine xdp`: one program sends on an absolute schedule, one takes the replies.
 * docs/internals/xdp.md */
#include "pace.h"
#include "wire.h"

LICENSE;

/* Written by the daemon before the run but for `stop` and the two marks of
 * its reading. */
struct setup {
	u64 start_ns;
	u64 packets;
	/* `pace_packets` in each `pace_ns`: slot n is due n * pace_ns / pace_packets after the start. */
	u64 pace_ns;
	u64 pace_packets;
	u64 catch_up_ns;
	/* How long a call may wait for a slot before it gives the CPU's other soft interrupts their turn. */
	u64 slice_ns;
	u64 interface;
	u64 size_byte;
	u64 full;
	u64 handle;
	struct secrets secrets;
	/* Ethernet, IPv4 and UDP headers of every packet, 42 B. */
	u8 headers[48];
	u64 sends_mask;
	u64 replies_mask;
	u64 stop;
	u64 sends_read;
	u64 replies_read;
	u64 _gap[8];
	/* Of the sending program. */
	u64 next;
	u64 sent;
	u64 _gap2[6];
	/* Of the receiving program. */
	u64 replies;
	u64 overrun;
	u64 foreign;
	u64 answered_arp;
};

/* A reply whose tag is still to be checked, in one cache line. */
struct reply {
	/* Written last: its place in the order of all replies, from 1 on, times 256, plus the flags of the full form. */
	u64 commit;
	u64 arrived_ns;
	/* Full form: from the sequence number to the tag; short form: its 18 bytes. */
	u64 header[6];
};

MAP setup_map = { MAP_ARRAY, 4, sizeof(struct setup), 1, MAP_MMAPABLE };
/* When each slot was sent, 0: too late; a ring. */
MAP sends = { MAP_ARRAY, 4, 8, 4096, MAP_MMAPABLE };
/* Replies in their order; a ring. */
MAP replies = { MAP_ARRAY, 4, sizeof(struct reply), 4096, MAP_MMAPABLE };

enum { NOT_YET, SEND };

struct turn {
	struct setup *setup;
	u64 now;
	u64 due;
	u64 until;
	u64 next;
	u32 what;
};

static int wait(u32 round, struct turn *turn)
{
	struct setup *setup = turn->setup;
	u64 now = ktime_ns();
	turn->now = now;
	if (!round)
		turn->until = now + setup->slice_ns;
	if (turn->next >= setup->packets || *(volatile u64 *)&setup->stop)
		return 1;
	/* What is not read yet is not written over: slots that pass meanwhile are late. */
	if (turn->next - *(volatile u64 *)&setup->sends_read > setup->sends_mask)
		return now >= turn->until;
	if (now < turn->due)
		return now >= turn->until;
	if (now - turn->due <= setup->catch_up_ns) {
		turn->what = SEND;
		return 1;
	}
	u32 place = turn->next & setup->sends_mask;
	u64 *sent = map_lookup(&sends, &place);
	if (!sent)
		return 1;
	*sent = 0;
	turn->next++;
	turn->due = DUE(setup, turn->next);
	return now >= turn->until;
}

SECTION("xdp.frags/generate") int generate(struct xdp_context *context)
{
	u8 *data = (u8 *)(u64)context->data, *end = (u8 *)(u64)context->data_end;
	u32 zero = 0;
	struct setup *setup = map_lookup(&setup_map, &zero);
	if (!setup || data + HEADERS_BYTE + SHORT_BYTE > end)
		return XDP_ABORTED;
	struct turn turn = { .setup = setup, .next = setup->next };
	turn.due = DUE(setup, turn.next);
	if (turn.next >= setup->packets)
		return XDP_DROP;
	loop(1 << 23, wait, &turn, 0);
	if (turn.what != SEND) {
		__sync_lock_test_and_set(&setup->next, turn.next);
		return XDP_DROP;
	}
	put_headers(data, setup->headers);
	u8 *p = data + HEADERS_BYTE;
	u64 sequence = turn.next, now = turn.now;
	if (setup->full) {
		if (p + FULL_BYTE > end)
			return XDP_ABORTED;
		p[0] = FULL_REQUEST;
		p[1] = 0;
		AT(u16, p + 2) = BIG16(setup->size_byte);
		AT(u64, p + 4) = setup->secrets.session_raw;
		AT(u64, p + 12) = BIG64(sequence);
		AT(u64, p + 20) = BIG64(now);
		AT(u64, p + 28) = 0;
		AT(u64, p + 36) = 0;
		AT(u64, p + 44) = 0;
		AT(u64, p + 52) = full_tag(&setup->secrets, p);
	} else {
		p[0] = SHORT_REQUEST;
		AT(u16, p + 1) = BIG16(setup->handle);
		AT(u32, p + 3) = BIG32((u32)sequence);
		AT(u32, p + 7) = BIG32((u32)now);
		put_short_tag(p, short_tag(&setup->secrets, p, sequence));
	}
	u32 place = sequence & setup->sends_mask;
	u64 *sent = map_lookup(&sends, &place);
	if (!sent)
		return XDP_ABORTED;
	*sent = now;
	setup->sent++;
	/* With a barrier: who reads this number finds the entries below it. */
	__sync_lock_test_and_set(&setup->next, sequence + 1);
	return redirect(setup->interface, 0);
}

/* Takes a frame as it is and sends it: to see whether redirected frames leave at all. */
SECTION("xdp.frags/knock") int knock(struct xdp_context *context)
{
	u32 zero = 0;
	struct setup *setup = map_lookup(&setup_map, &zero);
	(void)context;
	return setup ? redirect(setup->interface, 0) : XDP_ABORTED;
}

INLINE int is_answer_to_knock(struct xdp_context *context, const struct setup *setup)
{
	u8 *data = (u8 *)(u64)context->data, *end = (u8 *)(u64)context->data_end;
	/* An ARP reply (operation 2) to this host's hardware address. */
	return data + 42 <= end && AT(u16, data + 12) == BIG16(0x0806) && AT(u16, data + 20) == BIG16(2) &&
	       AT(u32, data + 32) == AT(u32, setup->headers + 6) && AT(u16, data + 36) == AT(u16, setup->headers + 10);
}

SECTION("xdp.frags/take") int take(struct xdp_context *context)
{
	u64 now = ktime_ns();
	u32 zero = 0;
	struct setup *setup = map_lookup(&setup_map, &zero);
	if (!setup)
		return XDP_PASS;
	struct datagram datagram;
	if (!parse_datagram(context, &datagram)) {
		if (is_answer_to_knock(context, setup))
			__sync_fetch_and_add(&setup->answered_arp, 1);
		return XDP_PASS;
	}
	/* From where requests go to where they come from. */
	const u8 *sent = setup->headers;
	if (datagram.ip->from != AT(u32, sent + 30) || datagram.ip->to != AT(u32, sent + 26) ||
	    datagram.udp->from != AT(u16, sent + 36) || datagram.udp->to != AT(u16, sent + 34))
		return XDP_PASS;
	u8 *p = datagram.payload, *end = (u8 *)(u64)context->data_end;
	/* Whoever reads the ring checks the tag: here that would be a tenth of a round trip's work. */
	u64 flags = 0;
	if (datagram.payload_byte != setup->size_byte)
		goto foreign;
	if (setup->full) {
		if (p + FULL_BYTE > end || p[0] != FULL_REPLY || AT(u16, p + 2) != BIG16(datagram.payload_byte) ||
		    AT(u64, p + 4) != setup->secrets.session_raw)
			goto foreign;
		flags = p[1];
	} else if (p + SHORT_BYTE > end || p[0] != SHORT_REPLY || AT(u16, p + 1) != BIG16(setup->handle)) {
		goto foreign;
	}
	u64 number = __sync_fetch_and_add(&setup->replies, 1);
	if (number - *(volatile u64 *)&setup->replies_read > setup->replies_mask) {
		/* Its place still holds one that has not been read. The reader learns of the gap by this count. */
		__sync_fetch_and_add(&setup->overrun, 1);
		return XDP_DROP;
	}
	u32 place = number & setup->replies_mask;
	struct reply *entry = map_lookup(&replies, &place);
	if (!entry)
		return XDP_DROP;
	entry->arrived_ns = now;
	if (setup->full) {
		/* Seen above; the verifier has forgotten it. */
		if (p + FULL_BYTE > end_of(context))
			return XDP_DROP;
		for (int word = 0; word < 6; word++)
			entry->header[word] = AT(u64, p + 12 + 8 * word);
	} else {
		entry->header[0] = AT(u64, p);
		entry->header[1] = AT(u64, p + 8);
		entry->header[2] = AT(u16, p + 16);
	}
	__sync_lock_test_and_set(&entry->commit, (number + 1) << 8 | flags);
	return XDP_DROP;
foreign:
	__sync_fetch_and_add(&setup->foreign, 1);
	return XDP_PASS;
}
