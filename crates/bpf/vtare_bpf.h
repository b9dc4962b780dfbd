/* What vtare's kernel programs need of the kernel, and nothing else: types, maps, helpers, packet headers. No
 * vmlinux.h, no CO-RE: nothing here depends on the layout of a kernel's own structures. Numbers are those of
 * include/uapi/linux/bpf.h. */
#pragma once

typedef __UINT8_TYPE__ u8;
typedef __UINT16_TYPE__ u16;
typedef __UINT32_TYPE__ u32;
typedef __UINT64_TYPE__ u64;
typedef __INT32_TYPE__ s32;
typedef __INT64_TYPE__ s64;

/* Bytes read or written as a number, whatever they are declared as. */
typedef u8 __attribute__((may_alias)) loose_u8;
typedef u16 __attribute__((may_alias)) loose_u16;
typedef u32 __attribute__((may_alias)) loose_u32;
typedef u64 __attribute__((may_alias)) loose_u64;
#define AT(type, at) (*(loose_##type *)(at))

#define SECTION(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
/* A function of its own, so that large code is verified and stored once. */
#define SUBPROGRAM static __attribute__((noinline))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* No helper in use is reserved for programs under the GPL. */
#define LICENSE SECTION("license") const char license_text[] = "Apache-2.0 OR MIT"

/* A map: a variable of this type in the section "maps" (vtare_sys::bpf::MapShape). */
struct map {
	u32 kind;
	u32 key_byte;
	u32 value_byte;
	u32 most_entries;
	u32 flags;
};
#define MAP SECTION("maps") struct map
enum { MAP_HASH = 1, MAP_ARRAY = 2, MAP_PERCPU_ARRAY = 6, MAP_XSK = 17, MAP_RINGBUF = 27 };
enum { MAP_MMAPABLE = 1 << 10 };

static void *(*const map_lookup)(const void *map, const void *key) = (void *)1;
static long (*const map_update)(const void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*const map_delete)(const void *map, const void *key) = (void *)3;
/* CLOCK_MONOTONIC, ns */
static u64 (*const ktime_ns)(void) = (void *)5;
static u32 (*const cpu_id)(void) = (void *)8;
static long (*const redirect)(u32 interface, u64 flags) = (void *)23;
static long (*const skb_load_bytes)(const void *skb, u32 offset, void *to, u32 byte) = (void *)26;
static long (*const redirect_map)(const void *map, u64 key, u64 flags) = (void *)51;
struct xdp_context;
/* Makes room (below 0) before the frame for what goes along with it. */
static long (*const adjust_meta)(struct xdp_context *context, s32 byte) = (void *)54;
/* Linux 5.8 */
static long (*const ring_output)(const void *ring, const void *data, u64 byte, u64 flags) = (void *)130;
static void *(*const ring_reserve)(const void *ring, u64 byte, u64 flags) = (void *)131;
static void (*const ring_submit)(void *data, u64 flags) = (void *)132;
static void (*const ring_discard)(void *data, u64 flags) = (void *)133;
static u64 (*const ring_query)(const void *ring, u64 flags) = (void *)134;
/* Linux 5.17: calls `callback(index, context)` at most `most` times, until it gives 1. */
static long (*const loop)(u32 most, void *callback, void *context, u64 flags) = (void *)181;
enum { RING_NO_WAKEUP = 1, RING_FORCE_WAKEUP = 2 };

struct xdp_context {
	u32 data;
	u32 data_end;
	u32 data_meta;
	u32 ingress_interface;
	u32 queue;
	u32 egress_interface;
};
enum { XDP_ABORTED, XDP_DROP, XDP_PASS, XDP_TX, XDP_REDIRECT };

/* The first fields of struct __sk_buff. */
struct tc_context {
	u32 len;
	u32 pkt_type;
	u32 mark;
	u32 queue_mapping;
	u32 protocol;
	u32 vlan_present;
	u32 vlan_tci;
	u32 vlan_proto;
	u32 priority;
	u32 ingress_interface;
	u32 interface;
	u32 tc_index;
	u32 cb[5];
	u32 hash;
	u32 tc_classid;
	u32 data;
	u32 data_end;
};
/* struct __sk_buff as far as it is read here. */
struct skb {
	struct tc_context first;
	u32 napi_id;
	u32 family;
	u32 ends[12];
	u32 data_meta;
	u64 flow_keys;
	u64 stamp;
	u32 wire_byte;
	u32 segments;
	u64 socket;
	u32 segment_byte;
};
/* Go on with the next program, else let it through. */
enum { TC_NEXT = -1, TC_OK = 0, TC_SHOT = 2 };

/* Not packed: none has gaps, and a packed member would be read byte by byte. Kernels let programs read at any address
 * where the machine can. */
struct ethernet {
	u8 to[6];
	u8 from[6];
	u16 kind;
};

struct ipv4 {
	u8 version_words;
	u8 service;
	u16 byte;
	u16 id;
	u16 fragment;
	u8 ttl;
	u8 protocol;
	u16 checksum;
	u32 from;
	u32 to;
};

struct ipv6 {
	u8 version_class;
	u8 flow[3];
	u16 payload_byte;
	u8 protocol;
	u8 hops;
	u8 from[16];
	u8 to[16];
};

struct udp {
	u16 from;
	u16 to;
	u16 byte;
	u16 checksum;
};

/* Ethernet, IPv4 without options, UDP. */
enum { HEADERS_BYTE = 42 };
enum { KIND_IPV4 = 0x0800, KIND_IPV6 = 0x86dd, PROTOCOL_ICMP = 1, PROTOCOL_UDP = 17, PROTOCOL_ICMPV6 = 58 };

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define BIG16(x) ((u16)__builtin_bswap16(x))
#define BIG32(x) __builtin_bswap32(x)
#define BIG64(x) __builtin_bswap64(x)
#else
#define BIG16(x) ((u16)(x))
#define BIG32(x) ((u32)(x))
#define BIG64(x) ((u64)(x))
#endif
