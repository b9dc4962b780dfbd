/* The answering end of `vtare serve --xdp`: judges probes of open sessions as crates/wire/src/session/table.rs does,
 * and sends replies from where requests come in. All that is not clearly a datagram of a session that was handed to it
 * goes on to the socket. docs/internals/xdp.md, docs/internals/security.md */
#include "wire.h"

LICENSE;

enum { WINDOW_WORDS = 1024, WINDOW_REACH = (WINDOW_WORDS - 1) * 64 };
enum { BUCKETS = 1 << 14, BUCKETS_TRIED = 8, ADDRESSES = 16 };
enum { LOCK_TRIES = 256 };
/* Who judges a session's datagrams: whoever met the first valid one. */
enum { UNDECIDED, THIS_PROGRAM, THE_DAEMON };
/* The time of grace beyond a session's duration. */
#define GRACE_NS 2000000000ull

/* What the daemon writes for all sessions. */
struct host {
	u64 port;
	u64 interface_address;
	/* Not 0: replies leave by a redirect to this interface. A veth wakes its other end for XDP_TX only where that
	 * has an XDP program, for a redirect also where it has GRO. */
	u64 redirect_to;
	/* This host's addresses that are listened on; the rest is 0. */
	u64 addresses[ADDRESSES];
};

struct session {
	/* Not 0: open. Written last by the daemon, and cleared first. */
	u64 open;
	u64 handle;
	struct secrets secrets;
	u64 peer;
	u64 full;
	u64 most_byte;
	u64 most_packets;
	u64 duration_ns;
	u64 idle_ns;
	/* The generic cell rate algorithm in 1/1024 ns since `base_ns`. */
	u64 base_ns;
	u64 increment;
	u64 tolerance;
	u64 judge;
	/* Of this program, under `lock`, but `heard_ns`, which the daemon sets, too. */
	u64 lock;
	u64 due;
	u64 port;
	u64 started_ns;
	u64 heard_ns;
	u64 window_end;
	u64 accepted;
	u64 replied;
	u64 duplicate;
	u64 too_old;
	u64 over_rate;
	u64 over_limit;
	u64 oversized;
	u64 forged;
	u64 accepted_byte;
	u64 replied_byte;
	/* Not judged: another CPU held the lock for too long. */
	u64 contended;
	u64 window[WINDOW_WORDS];
};

/* From a session's name to its handle. A name is random: its lower bits are its first place, and it lies there or in
 * one of the next. */
struct bucket {
	u64 session_raw;
	/* Handle + 1; 0: free. */
	u64 handle;
};

MAP host_map = { MAP_ARRAY, 4, sizeof(struct host), 1, MAP_MMAPABLE };
MAP sessions = { MAP_ARRAY, 4, sizeof(struct session), 1, MAP_MMAPABLE };
MAP buckets = { MAP_ARRAY, 4, sizeof(struct bucket), BUCKETS, MAP_MMAPABLE };

SUBPROGRAM u64 handle_of(u64 session_raw)
{
	u32 first = (u32)BIG64(session_raw);
	for (u32 step = 0; step < BUCKETS_TRIED; step++) {
		u32 place = (first + step) & (BUCKETS - 1);
		struct bucket *bucket = map_lookup(&buckets, &place);
		if (bucket && bucket->session_raw == session_raw && bucket->handle)
			return bucket->handle;
	}
	return 0;
}

INLINE int is_this_host(const struct host *host, u32 address)
{
#pragma unroll
	for (int index = 0; index < ADDRESSES; index++)
		if (host->addresses[index] == address)
			return address != 0;
	return 0;
}

struct clearing {
	struct session *session;
	u64 word;
};

static int clear(u32 round, struct clearing *clearing)
{
	(void)round;
	clearing->session->window[clearing->word++ & (WINDOW_WORDS - 1)] = 0;
	return 0;
}

/* RFC 6479, as crates/wire/src/session/window.rs. */
INLINE void mark(struct session *session, u64 sequence)
{
	if (sequence >= session->window_end) {
		u64 from = (session->window_end + 63) / 64, to = sequence / 64;
		if (from <= to) {
			u64 words = to - from + 1;
			if (words == 1) {
				session->window[from & (WINDOW_WORDS - 1)] = 0;
			} else {
				struct clearing clearing = { session, from };
				loop(words < WINDOW_WORDS ? words : WINDOW_WORDS, clear, &clearing, 0);
			}
		}
		session->window_end = sequence + 1;
	}
	session->window[sequence / 64 & (WINDOW_WORDS - 1)] |= 1ull << (sequence & 63);
}

struct judged {
	struct session *session;
	u64 sequence;
	u64 now;
	u32 from;
	u16 port;
	u32 byte;
	u32 is_full;
	u32 wants_reply;
	u64 session_raw;
};

/* Whether a datagram whose tag is right is accepted; counts it either way. In the order of Session::admit. */
INLINE int admit(const struct judged *it)
{
	struct session *session = it->session;
	if (it->from != session->peer || (session->port && session->port != it->port) || it->is_full != session->full) {
		session->forged++;
		return 0;
	}
	if (it->byte > session->most_byte) {
		session->oversized++;
		return 0;
	}
	if (it->sequence == ~0ull ||
	    (it->sequence < session->window_end && session->window_end - it->sequence > WINDOW_REACH)) {
		session->too_old++;
		return 0;
	}
	if (it->sequence < session->window_end &&
	    session->window[it->sequence / 64 & (WINDOW_WORDS - 1)] & 1ull << (it->sequence & 63)) {
		session->duplicate++;
		return 0;
	}
	u64 heard = *(volatile u64 *)&session->heard_ns;
	if (session->accepted >= session->most_packets || it->now >= heard + session->idle_ns ||
	    (session->started_ns && it->now > session->started_ns + session->duration_ns + GRACE_NS)) {
		session->over_limit++;
		return 0;
	}
	u64 now = it->now > session->base_ns ? (it->now - session->base_ns) << 10 : 0;
	if (!session->increment || session->due > now + session->tolerance) {
		session->over_rate++;
		return 0;
	}
	session->due = (session->due > now ? session->due : now) + session->increment;
	mark(session, it->sequence);
	session->port = it->port;
	if (!session->started_ns)
		session->started_ns = it->now;
	if (heard < it->now)
		session->heard_ns = it->now;
	session->accepted++;
	session->accepted_byte += it->byte;
	if (it->wants_reply) {
		session->replied++;
		session->replied_byte += it->byte;
	}
	return 1;
}

/* Turns a frame round: a reply goes to where its request came from, and is exactly as long. */
INLINE void turn_round(struct datagram *datagram)
{
	u8 *frame = (u8 *)datagram->ethernet;
	u32 to_high = AT(u32, frame);
	u16 to_low = AT(u16, frame + 4);
	AT(u32, frame) = AT(u32, frame + 6);
	AT(u16, frame + 4) = AT(u16, frame + 10);
	AT(u32, frame + 6) = to_high;
	AT(u16, frame + 10) = to_low;
	u32 address = datagram->ip->to;
	datagram->ip->to = datagram->ip->from;
	datagram->ip->from = address;
	datagram->ip->ttl = 64;
	datagram->ip->service = 0;
	datagram->ip->checksum = 0;
	datagram->ip->checksum = ipv4_checksum(datagram->ip);
	u16 port = datagram->udp->to;
	datagram->udp->to = datagram->udp->from;
	datagram->udp->from = port;
	/* Not computed, as RFC 768 allows over IPv4. */
	datagram->udp->checksum = 0;
}

SECTION("xdp.frags/reflect") int reflect(struct xdp_context *context)
{
	struct judged it = { .now = ktime_ns() };
	struct datagram datagram;
	u32 zero = 0;
	if (!parse_datagram(context, &datagram))
		return XDP_PASS;
	struct host *host = map_lookup(&host_map, &zero);
	if (!host || datagram.udp->to != (u16)host->port || !is_this_host(host, datagram.ip->to))
		return XDP_PASS;
	/* To this card alone: an answer to many would come from all of them. */
	u64 to = AT(u32, datagram.ethernet->to) | (u64)AT(u16, datagram.ethernet->to + 4) << 32;
	if (to != host->interface_address)
		return XDP_PASS;
	u8 *p = datagram.payload, *end = (u8 *)(u64)context->data_end;
	if (datagram.payload_byte > LARGEST_BYTE || p + SHORT_BYTE > end)
		return XDP_PASS;
	u64 handle;
	it.is_full = p[0] == FULL_REQUEST || p[0] == FULL_ONE_WAY;
	it.wants_reply = p[0] == FULL_REQUEST || p[0] == SHORT_REQUEST;
	if (it.is_full) {
		if (datagram.payload_byte < FULL_BYTE || p + FULL_BYTE > end || p[1] ||
		    AT(u16, p + 2) != BIG16(datagram.payload_byte) || AT(u64, p + 28) | AT(u64, p + 36) | AT(u64, p + 44))
			return XDP_PASS;
		handle = handle_of(AT(u64, p + 4));
		if (!handle)
			return XDP_PASS;
		handle--;
	} else if (p[0] == SHORT_REQUEST || p[0] == SHORT_ONE_WAY) {
		if (datagram.payload_byte < SHORT_BYTE)
			return XDP_PASS;
		handle = BIG16(AT(u16, p + 1));
	} else {
		return XDP_PASS;
	}
	u32 place = handle;
	struct session *session = map_lookup(&sessions, &place);
	if (!session || !*(volatile u64 *)&session->open || *(volatile u64 *)&session->judge == THE_DAEMON)
		return XDP_PASS;
	it.session_raw = *(volatile u64 *)&session->secrets.session_raw;
	if (it.is_full) {
		/* Seen above; the verifier has forgotten it. */
		if (p + FULL_BYTE > end_of(context))
			return XDP_PASS;
		it.sequence = BIG64(AT(u64, p + 12));
		if (AT(u64, p + 4) != it.session_raw || AT(u64, p + 52) != full_tag(&session->secrets, p))
			return XDP_PASS;
	} else {
		u64 end_of_window = *(volatile u64 *)&session->window_end;
		it.sequence = whole_sequence(BIG32(AT(u32, p + 3)), end_of_window ? end_of_window - 1 : 0);
		if (short_tag_found(p) != short_tag(&session->secrets, p, it.sequence))
			return XDP_PASS;
	}
	/* Whoever meets the first valid datagram of a session judges all of them: two judges would each answer a replay
	 * once. */
	if (*(volatile u64 *)&session->judge == UNDECIDED &&
	    __sync_val_compare_and_swap(&session->judge, UNDECIDED, THIS_PROGRAM) == THE_DAEMON)
		return XDP_PASS;
	it.session = session;
	it.from = datagram.ip->from;
	it.port = datagram.udp->from;
	it.byte = datagram.payload_byte;
	int free = 0;
	for (int tries = 0; tries < LOCK_TRIES && !free; tries++)
		free = !__sync_lock_test_and_set(&session->lock, 1);
	if (!free) {
		__sync_fetch_and_add(&session->contended, 1);
		return XDP_DROP;
	}
	/* Closed meanwhile, and maybe another session's now. */
	int accepted = *(volatile u64 *)&session->open &&
		       *(volatile u64 *)&session->secrets.session_raw == it.session_raw && admit(&it);
	u64 count = session->accepted;
	__sync_lock_test_and_set(&session->lock, 0);
	if (!accepted || !it.wants_reply)
		return XDP_DROP;
	if (it.is_full) {
		if (p + FULL_BYTE > end_of(context))
			return XDP_DROP;
		p[0] = FULL_REPLY;
		p[1] = STAMPED_BY_KERNEL;
		AT(u64, p + 28) = BIG64(it.now);
		AT(u64, p + 36) = BIG64(ktime_ns());
		AT(u64, p + 44) = BIG64(count);
		AT(u64, p + 52) = full_tag(&session->secrets, p);
	} else {
		u64 turnaround = ktime_ns() - it.now;
		p[0] = SHORT_REPLY;
		AT(u32, p + 7) = BIG32(turnaround < ~0u ? (u32)turnaround : ~0u);
		put_short_tag(p, short_tag(&session->secrets, p, it.sequence));
	}
	turn_round(&datagram);
	return host->redirect_to ? redirect(host->redirect_to, 0) : XDP_TX;
}
