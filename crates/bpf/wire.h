/* vtare's wire form in the kernel (docs/internals/wire.md; crates/wire/src is the same in Rust, and tests hold both).
 * For machines that store the low byte first. */
#pragma once
#include "vtare_bpf.h"

enum {
	FULL_REQUEST = 0x11,
	FULL_REPLY = 0x12,
	FULL_ONE_WAY = 0x13,
	SHORT_REQUEST = 0x19,
	SHORT_REPLY = 0x1a,
	SHORT_ONE_WAY = 0x1b
};
enum { FULL_BYTE = 60, SHORT_BYTE = 18, LARGEST_BYTE = 9000 };
enum { STAMPED_BY_KERNEL = 1 };

/* A session's secrets as they lie in memory: the name in the order of the wire. */
struct secrets {
	u64 key[2];
	u64 session_raw;
};

struct sip {
	u64 a, b, c, d;
};

#define TURN(x, n) ((x) << (n) | (x) >> (64 - (n)))

INLINE void sip_round(struct sip *s)
{
	s->a += s->b;
	s->b = TURN(s->b, 13) ^ s->a;
	s->a = TURN(s->a, 32);
	s->c += s->d;
	s->d = TURN(s->d, 16) ^ s->c;
	s->a += s->d;
	s->d = TURN(s->d, 21) ^ s->a;
	s->c += s->b;
	s->b = TURN(s->b, 17) ^ s->c;
	s->c = TURN(s->c, 32);
}

INLINE void sip_start(struct sip *s, const struct secrets *secrets)
{
	s->a = secrets->key[0] ^ 0x736f6d6570736575ull;
	s->b = secrets->key[1] ^ 0x646f72616e646f6dull;
	s->c = secrets->key[0] ^ 0x6c7967656e657261ull;
	s->d = secrets->key[1] ^ 0x7465646279746573ull;
}

INLINE void sip_word(struct sip *s, u64 word)
{
	s->d ^= word;
	sip_round(s);
	sip_round(s);
	s->a ^= word;
}

INLINE u64 sip_end(struct sip *s)
{
	s->c ^= 0xff;
	sip_round(s);
	sip_round(s);
	sip_round(s);
	sip_round(s);
	return s->a ^ s->b ^ s->c ^ s->d;
}

/* The tag over the first 52 bytes at p, as it lies in memory. */
INLINE u64 full_tag(const struct secrets *secrets, const u8 *p)
{
	struct sip s;
	sip_start(&s, secrets);
	sip_word(&s, AT(u64, p));
	sip_word(&s, AT(u64, p + 8));
	sip_word(&s, AT(u64, p + 16));
	sip_word(&s, AT(u64, p + 24));
	sip_word(&s, AT(u64, p + 32));
	sip_word(&s, AT(u64, p + 40));
	sip_word(&s, AT(u32, p + 48) | 52ull << 56);
	return BIG64(sip_end(&s));
}

/* The tag over the first 11 bytes at p, the session's name and the whole number, as its 7 bytes lie in memory. */
INLINE u64 short_tag(const struct secrets *secrets, const u8 *p, u64 sequence)
{
	struct sip s;
	u64 name = secrets->session_raw, number = BIG64(sequence);
	u64 tail = AT(u16, p + 8) | (u64)p[10] << 16;
	sip_start(&s, secrets);
	sip_word(&s, AT(u64, p));
	sip_word(&s, tail | name << 24);
	sip_word(&s, name >> 40 | number << 24);
	sip_word(&s, number >> 40 | 27ull << 56);
	return BIG64(sip_end(&s)) & 0x00ffffffffffffffull;
}

INLINE u64 short_tag_found(const u8 *p)
{
	return AT(u64, p + 10) >> 8;
}

INLINE void put_short_tag(u8 *p, u64 tag)
{
	AT(u64, p + 10) = tag << 8 | p[10];
}

/* Of all numbers with this lower half the one nearest to `near`. */
INLINE u64 whole_sequence(u32 low, u64 near)
{
	s64 ahead = (s32)(low - (u32)near);
	if (ahead < 0 ? (u64)-ahead > near : (u64)ahead > ~near)
		return low | (near & 0xffffffff00000000ull);
	return near + ahead;
}

/* Read anew each time, so that the compiler cannot leave out a check it has seen before. */
INLINE u8 *end_of(struct xdp_context *context)
{
	return (u8 *)(u64) * (volatile u32 *)&context->data_end;
}

/* A UDP datagram in IPv4 without options or fragments, whole in this frame. */
struct datagram {
	struct ethernet *ethernet;
	struct ipv4 *ip;
	struct udp *udp;
	u8 *payload;
	u32 payload_byte;
};

INLINE int parse_datagram(struct xdp_context *context, struct datagram *found)
{
	u8 *data = (u8 *)(u64)context->data, *end = (u8 *)(u64)context->data_end;
	if (data + HEADERS_BYTE > end)
		return 0;
	found->ethernet = (void *)data;
	found->ip = (void *)(data + 14);
	found->udp = (void *)(data + 34);
	found->payload = data + HEADERS_BYTE;
	if (found->ethernet->kind != BIG16(KIND_IPV4) || found->ip->version_words != 0x45 ||
	    found->ip->protocol != PROTOCOL_UDP)
		return 0;
	/* Neither part nor beginning of a datagram in parts. */
	if (found->ip->fragment & BIG16(0x3fff))
		return 0;
	u32 ip_byte = BIG16(found->ip->byte), udp_byte = BIG16(found->udp->byte);
	if (udp_byte < 8 || udp_byte + 20 != ip_byte || ip_byte + 14 > (u64)(end - data))
		return 0;
	found->payload_byte = udp_byte - 8;
	return 1;
}

/* The checksum of an IPv4 header without options whose checksum field is 0. */
INLINE u16 ipv4_checksum(const struct ipv4 *ip)
{
	u32 sum = 0;
#pragma unroll
	for (int word = 0; word < 10; word++)
		sum += AT(u16, (const u8 *)ip + 2 * word);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (u16)~sum;
}
