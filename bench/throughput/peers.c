/* How fast do plain senders make frames of one size? `peers udp ADDRESS BYTES SECONDS` sends datagrams by sendmmsg on a
 * connected socket, `peers ring IFACE MAC BYTES SECONDS` frames by AF_PACKET's send ring (PACKET_TX_RING, past the
 * queue discipline). Prints frames a second. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>

enum { BATCH = 64, SLOT = 2048, SLOTS = 1024 };

static double now(void)
{
	struct timespec at;
	clock_gettime(CLOCK_MONOTONIC, &at);
	return at.tv_sec + at.tv_nsec * 1e-9;
}

static void fail(const char *what)
{
	perror(what);
	exit(3);
}

static double udp(const char *to, int frame_byte, double seconds)
{
	struct sockaddr_in name = { .sin_family = AF_INET, .sin_port = htons(8462) };
	inet_pton(AF_INET, to, &name.sin_addr);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&name, sizeof name))
		fail("udp");
	static char payload[9000];
	/* Ethernet, IPv4 and UDP headers, and the check sequence. */
	struct iovec part = { payload, frame_byte - 46 };
	struct mmsghdr all[BATCH];
	memset(all, 0, sizeof all);
	for (int i = 0; i < BATCH; i++) {
		all[i].msg_hdr.msg_iov = &part;
		all[i].msg_hdr.msg_iovlen = 1;
	}
	double began = now();
	long sent = 0;
	do {
		int taken = sendmmsg(fd, all, BATCH, 0);
		if (taken > 0)
			sent += taken;
	} while (now() - began < seconds);
	return sent / (now() - began);
}

static double ring(const char *interface, const char *to, int frame_byte, double seconds)
{
	int fd = socket(AF_PACKET, SOCK_RAW, 0), one = 1;
	if (fd < 0)
		fail("socket");
	struct tpacket_req request = {
	        .tp_block_size = SLOT * SLOTS, .tp_block_nr = 1, .tp_frame_size = SLOT, .tp_frame_nr = SLOTS};
	if (setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof one) ||
	    setsockopt(fd, SOL_PACKET, PACKET_LOSS, &one, sizeof one) ||
	    setsockopt(fd, SOL_PACKET, PACKET_TX_RING, &request, sizeof request))
		fail("PACKET_TX_RING");
	char *memory = mmap(0, SLOT * SLOTS, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		fail("mmap");
	struct sockaddr_ll name = {
	        .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP), .sll_ifindex = if_nametoindex(interface)};
	if (bind(fd, (struct sockaddr *)&name, sizeof name))
		fail("bind");
	unsigned char mac[6];
	sscanf(to, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", mac, mac + 1, mac + 2, mac + 3, mac + 4, mac + 5);
	const int data = TPACKET_HDRLEN - sizeof(struct sockaddr_ll);
	for (int i = 0; i < SLOTS; i++) {
		unsigned char *frame = (unsigned char *)memory + i * SLOT + data;
		memset(frame, 0, frame_byte);
		memcpy(frame, mac, 6);
		memcpy(frame + 6, mac, 6);
		frame[12] = 8;
	}
	double began = now();
	long sent = 0;
	int next = 0;
	do {
		for (int i = 0; i < BATCH; i++) {
			struct tpacket_hdr *head = (void *)(memory + next * SLOT);
			if (head->tp_status != TP_STATUS_AVAILABLE && head->tp_status != TP_STATUS_WRONG_FORMAT)
				break;
			head->tp_len = frame_byte - 4;
			__atomic_store_n(&head->tp_status, TP_STATUS_SEND_REQUEST, __ATOMIC_RELEASE);
			next = (next + 1) % SLOTS;
			sent++;
		}
		send(fd, 0, 0, MSG_DONTWAIT);
	} while (now() - began < seconds);
	return sent / (now() - began);
}

int main(int count, char **words)
{
	if (count == 5 && !strcmp(words[1], "udp"))
		printf("%.0f\n", udp(words[2], atoi(words[3]), atof(words[4])));
	else if (count == 6 && !strcmp(words[1], "ring"))
		printf("%.0f\n", ring(words[2], words[3], atoi(words[4]), atof(words[5])));
	else
		return fprintf(stderr, "usage: peers udp ADDRESS BYTES SECONDS | peers ring IFACE MAC BYTES SECONDS\n"), 2;
	return 0;
}
