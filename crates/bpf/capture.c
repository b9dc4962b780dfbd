/* Probes at the entry and exit of an interface, as vtare_capture::tc reads them: which packets look like probes is
 * decided here, what they contain there. Nothing is changed and nothing is delayed: every packet goes on. */
#include "vtare_bpf.h"

LICENSE;

static long (*const load_relative)(const void *skb, u32 offset, void *to, u32 byte, u32 start) = (void *)68;
enum { FROM_LINK_HEADER, FROM_NETWORK_HEADER };
enum { MOST_TAGS = 4, MOST_EXTENSIONS = 4, MOST_SEGMENTS = 128 };
/* Of a datagram: what identifies the longest form, STAMP's reply, and the least a probe has. */
enum { HEAD_BYTE = 28, LEAST_BYTE = 18 };

struct wanted {
	/* One bit for each UDP port. */
	u64 ports[1024];
	u64 echo;
};
MAP wanted = { MAP_ARRAY, 4, sizeof(struct wanted), 1, MAP_MMAPABLE };

struct counts {
	/* Probes for which the ring had no room. */
	u64 lost;
	/* Packets whose headers could not be read. */
	u64 unread;
	/* Large packets that hold several datagrams. */
	u64 merged;
	/* Later fragments of UDP packets. */
	u64 fragments;
};
MAP counts = { MAP_ARRAY, 4, sizeof(struct counts), 1, MAP_MMAPABLE };

struct record {
	u64 stamp_ns;
	/* Of this datagram's own packet, with and without its headers. */
	u32 ip_byte;
	u32 payload_byte;
	u8 version;
	u8 protocol;
	u8 outgoing;
	/* Whether it came in a large packet. */
	u8 merged;
	u8 head_byte;
	u8 unused[3];
	u8 from[16];
	u8 to[16];
	u8 transport[8];
	u8 head[HEAD_BYTE];
};
MAP records = { MAP_RINGBUF, 0, 0, 1 << 24, 0 };

/* A packet on its way to becoming records. */
struct packet {
	u64 stamp_ns;
	u32 start;
	u32 payload_at;
	u32 header_byte;
	u32 payload_byte;
	u32 segment_byte;
	u8 version;
	u8 protocol;
	u8 outgoing;
	u8 from[16];
	u8 to[16];
	u8 transport[8];
};

INLINE u16 half(const u8 *at)
{
	return (u16)(at[0] << 8 | at[1]);
}

INLINE void add(u64 *count)
{
	__sync_fetch_and_add(count, 1);
}

/* Finds the IP header: where it begins, from which start. Gives 0 for other protocols. */
INLINE int find_ip(struct skb *skb, u32 *at, u32 *start, u16 *kind)
{
	*at = 0;
	*start = FROM_NETWORK_HEADER;
	*kind = BIG16((u16)skb->first.protocol);
	if (likely(*kind == KIND_IPV4 || *kind == KIND_IPV6))
		return 1;
	/* Tags that the card left in the frame. */
	*start = FROM_LINK_HEADER;
	*at = 12;
	for (int tag = 0; tag <= MOST_TAGS; tag++) {
		u8 bytes[2];
		if (load_relative(skb, *at, bytes, sizeof bytes, FROM_LINK_HEADER))
			return 0;
		*kind = half(bytes);
		*at += 2;
		if (*kind == KIND_IPV4 || *kind == KIND_IPV6)
			return 1;
		if (*kind != 0x8100 && *kind != 0x88a8 && *kind != 0x9100)
			return 0;
		*at += 2;
	}
	return 0;
}

/* Reads the headers; gives 0 where this is nothing that could be wanted. */
INLINE int read_ipv4(struct skb *skb, u32 at, struct packet *packet, struct counts *counts)
{
	struct {
		struct ipv4 ip;
		u8 transport[8];
	} __attribute__((packed)) head;
	if (load_relative(skb, at, &head, sizeof head, packet->start))
		return 0;
	u32 header = (head.ip.version_words & 0xf) * 4, total = BIG16(head.ip.byte);
	if (head.ip.protocol != PROTOCOL_UDP && head.ip.protocol != PROTOCOL_ICMP)
		return 0;
	if (head.ip.fragment & BIG16(0x1fff)) {
		add(&counts->fragments);
		return 0;
	}
	if (header < 20 || total < header + 8)
		return 0;
	if (unlikely(header > 20) && load_relative(skb, at + header, head.transport, 8, packet->start)) {
		add(&counts->unread);
		return 0;
	}
	packet->version = 4;
	packet->protocol = head.ip.protocol;
	__builtin_memcpy(packet->from, &head.ip.from, 4);
	__builtin_memcpy(packet->to, &head.ip.to, 4);
	__builtin_memcpy(packet->transport, head.transport, 8);
	packet->payload_at = at + header + 8;
	packet->header_byte = header + 8;
	packet->payload_byte = total - header - 8;
	return 1;
}

INLINE int read_ipv6(struct skb *skb, u32 at, struct packet *packet, struct counts *counts)
{
	struct ipv6 ip;
	if (load_relative(skb, at, &ip, sizeof ip, packet->start))
		return 0;
	u32 header = sizeof ip, total = sizeof ip + BIG16(ip.payload_byte);
	u8 next = ip.protocol;
	for (int extension = 0; extension < MOST_EXTENSIONS; extension++) {
		u8 bytes[4];
		if (likely(next != 0 && next != 43 && next != 44 && next != 60))
			break;
		if (load_relative(skb, at + header, bytes, sizeof bytes, packet->start))
			return 0;
		if (next == 44 && half(bytes + 2) & 0xfff8) {
			add(&counts->fragments);
			return 0;
		}
		header += next == 44 ? 8 : (bytes[1] + 1) * 8;
		next = bytes[0];
	}
	if ((next != PROTOCOL_UDP && next != PROTOCOL_ICMPV6) || total < header + 8)
		return 0;
	if (load_relative(skb, at + header, packet->transport, 8, packet->start)) {
		add(&counts->unread);
		return 0;
	}
	packet->version = 6;
	packet->protocol = next;
	__builtin_memcpy(packet->from, ip.from, 16);
	__builtin_memcpy(packet->to, ip.to, 16);
	packet->payload_at = at + header + 8;
	packet->header_byte = header + 8;
	packet->payload_byte = total - header - 8;
	return 1;
}

INLINE int is_wanted(const struct packet *packet, const struct wanted *wanted)
{
	if (packet->protocol == PROTOCOL_UDP) {
		u16 from = half(packet->transport), to = half(packet->transport + 2);
		return (wanted->ports[from >> 6] >> (from & 63) | wanted->ports[to >> 6] >> (to & 63)) & 1;
	}
	u8 kind = packet->transport[0];
	return wanted->echo && (packet->protocol == PROTOCOL_ICMP ? kind == 8 || kind == 0 : kind == 128 || kind == 129);
}

/* Copies the first bytes of a datagram, `at` bytes into the payload. What a large packet carries often lies outside of
 * its linear part, which is all that can be reached from a header; then its place follows from the lengths, as large
 * packets have no padding behind them. */
INLINE int load_head(struct skb *skb, const struct packet *packet, u32 at, u8 *to, u32 byte)
{
	if (!load_relative(skb, packet->payload_at + at, to, byte, packet->start))
		return 1;
	u32 ip_byte = packet->header_byte + packet->payload_byte;
	return skb->first.len >= ip_byte && !skb_load_bytes(skb, skb->first.len - packet->payload_byte + at, to, byte);
}

/* Writes one datagram's record, `at` bytes into the payload. */
INLINE void write(struct skb *skb, const struct packet *packet, u32 at, u32 byte, struct counts *counts)
{
	struct record *record = ring_reserve(&records, sizeof *record, 0);
	if (unlikely(!record)) {
		add(&counts->lost);
		return;
	}
	record->stamp_ns = packet->stamp_ns;
	record->ip_byte = packet->header_byte + byte;
	record->payload_byte = byte;
	record->version = packet->version;
	record->protocol = packet->protocol;
	record->outgoing = packet->outgoing;
	record->merged = packet->segment_byte != 0;
	__builtin_memset(record->unused, 0, sizeof record->unused);
	__builtin_memcpy(record->from, packet->from, 16);
	__builtin_memcpy(record->to, packet->to, 16);
	__builtin_memcpy(record->transport, packet->transport, 8);
	__builtin_memset(record->head, 0, HEAD_BYTE);
	record->head_byte = 0;
	if (packet->protocol == PROTOCOL_UDP) {
		if (byte >= HEAD_BYTE) {
			if (load_head(skb, packet, at, record->head, HEAD_BYTE))
				record->head_byte = HEAD_BYTE;
		} else if (byte >= LEAST_BYTE) {
			if (load_head(skb, packet, at, record->head, LEAST_BYTE))
				record->head_byte = LEAST_BYTE;
		}
	}
	/* The reader looks for itself every few milliseconds: waking it up would cost more than all of this. */
	ring_submit(record, RING_NO_WAKEUP);
}

/* A large packet that is being written. */
struct split {
	struct skb *skb;
	struct packet *packet;
	struct counts *counts;
	u32 done;
	u32 left;
};

/* A callback of `loop`, not a loop of its own: so the verifier looks at it once, and not at each of its turns. */
static int write_segment(u32 index, struct split *split)
{
	(void)index;
	u32 size = split->packet->segment_byte;
	u32 byte = split->left < size ? split->left : size;
	write(split->skb, split->packet, split->done, byte, split->counts);
	split->done += byte;
	split->left -= byte;
	return split->left == 0;
}

INLINE int capture(struct skb *skb, u8 outgoing)
{
	struct packet packet = { .stamp_ns = ktime_ns(), .outgoing = outgoing };
	u32 key = 0, at;
	u16 kind;
	if (!find_ip(skb, &at, &packet.start, &kind))
		return TC_NEXT;
	struct wanted *looked_for = map_lookup(&wanted, &key);
	struct counts *counted = map_lookup(&counts, &key);
	if (!looked_for || !counted)
		return TC_NEXT;
	int known = kind == KIND_IPV4 ? read_ipv4(skb, at, &packet, counted) : read_ipv6(skb, at, &packet, counted);
	if (!known || !is_wanted(&packet, looked_for))
		return TC_NEXT;
	u32 size = skb->segment_byte;
	if (likely(size == 0 || packet.protocol != PROTOCOL_UDP || packet.payload_byte <= size)) {
		write(skb, &packet, 0, packet.payload_byte, counted);
		return TC_NEXT;
	}
	add(&counted->merged);
	packet.segment_byte = size;
	struct split split = { skb, &packet, counted, 0, packet.payload_byte };
	loop(MOST_SEGMENTS, write_segment, &split, 0);
	return TC_NEXT;
}

SECTION("tc") int capture_rx(struct skb *skb)
{
	return capture(skb, 0);
}

SECTION("tc") int capture_tx(struct skb *skb)
{
	return capture(skb, 1);
}
