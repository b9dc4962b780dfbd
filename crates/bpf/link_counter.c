/* Adds up the bytes of IP that come in at an interface, bin by bin (crates/vtare/src/link_counter reads them). Nothing
 * is changed and nothing is delayed: every packet goes on. */
#include "vtare_bpf.h"

LICENSE;

/* Places in a frame of IPv4 without options. */
enum { PROTOCOL_AT = 23, FROM_AT = 26, PORT_TO_AT = 36 };
/* Headers of Ethernet; with it, of a UDP datagram and of a TCP segment with time stamps. A group of packets
 * (UDP_SEGMENT, TCP segmentation) has them once, each of its packets on the wire has them. */
enum { ETHERNET_BYTE = 14, UDP_HEADERS_BYTE = 42, TCP_HEADERS_BYTE = 66, PROTOCOL_TCP = 6 };
/* A ring, which is read long before it comes round: 52 s at 50 us. */
enum { MOST_BINS = 1 << 20 };

struct settings {
	/* When the first bin begins, CLOCK_MONOTONIC. */
	u64 from_ns;
	u64 bin_ns;
	/* Only what goes to this port, in the order of the wire; 0: all. */
	u64 port;
	/* Only what goes from the first of these addresses of IPv4 to the second, in the order of the wire; 0: all. */
	u32 between[2];
};
MAP settings = { MAP_ARRAY, 4, sizeof(struct settings), 1, MAP_MMAPABLE };
MAP bins = { MAP_ARRAY, 4, 8, MOST_BINS, MAP_MMAPABLE };

SECTION("tc") int count_ingress(struct skb *skb)
{
	u32 key = 0;
	const struct settings *wanted = map_lookup(&settings, &key);
	if (!wanted)
		return TC_NEXT;
	if (wanted->port) {
		u16 port;
		if (skb_load_bytes(skb, PORT_TO_AT, &port, sizeof port) || port != wanted->port)
			return TC_NEXT;
	}
	if (wanted->between[0]) {
		u32 between[2];
		if (skb_load_bytes(skb, FROM_AT, between, sizeof between) || between[0] != wanted->between[0] ||
		    between[1] != wanted->between[1])
			return TC_NEXT;
	}
	u8 protocol = 0;
	/* Too short for IPv4: no group of packets either. */
	skb_load_bytes(skb, PROTOCOL_AT, &protocol, sizeof protocol);
	u64 headers = protocol == PROTOCOL_TCP ? TCP_HEADERS_BYTE : UDP_HEADERS_BYTE;
	u64 packets = skb->segments ? skb->segments : 1;
	key = (ktime_ns() - wanted->from_ns) / wanted->bin_ns % MOST_BINS;
	u64 *bin = map_lookup(&bins, &key);
	if (bin)
		__sync_fetch_and_add(bin, skb->first.len + (packets - 1) * headers - packets * ETHERNET_BYTE);
	return TC_NEXT;
}
