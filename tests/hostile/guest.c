/* The first process of a hostile micro guest: it plays vtare's agent (docs/internals/guests.md) up to its attack.
 *
 * Built by tests/platforms/test_hostile_guests.py, statically, with -DATTACK=..., and "bomb.h": a small Parquet file
 * that declares a thousand million rows. */
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bomb.h"

enum { OTHER_FILE, ENDLESS_FILE, ENDLESS_OUTPUT, NOISE, SILENCE, BOMB, DEEP_HELLO, EXIT_CODE, CONSOLE, UNASKED };
enum { START = 1, SIGNAL = 2, GET = 4, FACTS = 6, END = 7, DATA = 16, WHOLE = 17, HELLO = 32, ANSWER = 33 };
enum { STDOUT = 35, STDERR = 36, EXITED = 37 };

static const char LOAD[] = "{\"schema\": \"vtare.load/1\"}";
static const char READY[] = "ready\n";
static char payload[1 << 17];
static int port;

static uint32_t crc32(const void *data, size_t length) {
  uint32_t crc = ~0u;
  for (const uint8_t *at = data, *end = at + length; at < end; at++) {
    crc ^= *at;
    for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
  }
  return ~crc;
}

static void put(const void *data, size_t length) {
  while (length > 0) {
    ssize_t written = write(port, data, length);
    if (written <= 0) return;
    data = (const char *)data + written;
    length -= (size_t)written;
  }
}

static size_t frame(uint8_t *to, uint8_t kind, uint32_t job, const void *data, uint32_t length) {
  memcpy(to, "vtG1", 4);
  to[4] = kind;
  memcpy(to + 5, &job, 4);
  memcpy(to + 9, &length, 4);
  uint32_t check = crc32(to, 13);
  memcpy(to + 13, &check, 4);
  memcpy(to + 17, data, length);
  check = crc32(data, length);
  memcpy(to + 17 + length, &check, 4);
  return 21 + length;
}

static void say(uint8_t kind, uint32_t job, const void *data, uint32_t length) {
  static uint8_t bytes[1 << 17];
  put(bytes, frame(bytes, kind, job, data, length));
}

static void say_text(uint8_t kind, uint32_t job, const char *text) { say(kind, job, text, (uint32_t)strlen(text)); }

/* The same frame for ever. */
static void flood(uint8_t kind, uint32_t job) {
  static uint8_t bytes[1 << 17], content[60000];
  size_t length = frame(bytes, kind, job, content, sizeof content);
  for (;;) put(bytes, length);
}

static void hang(void) {
  for (;;) pause();
}

static void ended(uint32_t job, const char *out, const char *err) {
  char text[300];
  snprintf(text, sizeof text,
           "{\"code\": %s, \"signal\": null, \"stdout\": {\"byte\": %zu, \"crc32\": %u}, \"stderr\": {\"byte\": %zu, "
           "\"crc32\": %u}}", ATTACK == EXIT_CODE && !*out ? "[\"0\"]" : "0", strlen(out),
           crc32(out, strlen(out)), strlen(err), crc32(err, strlen(err)));
  say_text(EXITED, job, text);
}

static void answer(uint8_t kind, uint32_t job) {
  static uint32_t load;
  static const char other[] = "not what was asked for";
  switch (kind) {
  case FACTS:
    say_text(ANSWER, job, "{\"clock_source\": \"tsc\", \"clock_sources_available\": [\"tsc\"]}");
    return;
  case START:
    say_text(ANSWER, job, "{\"pid\": 7}");
    if (strstr(payload, "\"load\"")) {
      load = job;
      say_text(STDERR, job, READY);
      return;
    }
    if (ATTACK == ENDLESS_OUTPUT) flood(STDOUT, job);
    if (ATTACK == UNASKED) flood(STDOUT, 4000000000u);
    for (int i = 0; ATTACK == NOISE; i++) put("vvvvtG1 and so on, without end", 30);
    if (ATTACK == CONSOLE) {
      static char line[1 << 17];
      memset(line, 'x', sizeof line);
      int console = open("/dev/console", O_WRONLY);
      for (size_t at = 0; at < sizeof line;) at += (size_t)write(console, line + at, 512);
    }
    ended(job, "", "");
    return;
  case SIGNAL:
    if (strstr(payload, "kill")) return;
    say_text(STDOUT, load, LOAD);
    ended(load, LOAD, READY);
    return;
  case GET:
    if (ATTACK == ENDLESS_FILE) flood(DATA, job);
    if (ATTACK == SILENCE) say(DATA, job, other, 3), hang();
    if (ATTACK == BOMB) {
      say(DATA, job, bomb, sizeof bomb);
      snprintf(payload, sizeof payload, "{\"byte\": %zu}", sizeof bomb);
      say_text(WHOLE, job, payload);
      return;
    }
    say(DATA, job, other, sizeof other - 1);
    say_text(WHOLE, job, "{\"byte\": 22, \"path\": \"../../../evil\", \"name\": \"../../../evil\"}");
    return;
  case WHOLE:
    say_text(ANSWER, job, "{}");
    return;
  }
}

static int take(void *to, size_t length) {
  for (char *at = to; length > 0;) {
    ssize_t came = read(port, at, length);
    if (came <= 0) return 0;
    at += came;
    length -= (size_t)came;
  }
  return 1;
}

static void load_modules(void) {
  FILE *order = fopen("/modules/order", "r");
  char path[300];
  while (order && fgets(path, sizeof path, order)) {
    path[strcspn(path, " \n")] = 0;
    int module = open(path, O_RDONLY);
    if (module >= 0) syscall(SYS_finit_module, module, "", 0);
  }
}

static int open_port(void) {
  DIR *ports = opendir("/sys/class/virtio-ports");
  for (struct dirent *entry; ports && (entry = readdir(ports));) {
    char path[400], name[100] = "";
    snprintf(path, sizeof path, "/sys/class/virtio-ports/%s/name", entry->d_name);
    FILE *file = fopen(path, "r");
    if (!file || !fgets(name, sizeof name, file) || strncmp(name, "org.vtare.agent", 15)) continue;
    snprintf(path, sizeof path, "/dev/%s", entry->d_name);
    return open(path, O_RDWR);
  }
  return -1;
}

int main(void) {
  mount("proc", "/proc", "proc", 0, 0);
  mount("sysfs", "/sys", "sysfs", 0, 0);
  mount("devtmpfs", "/dev", "devtmpfs", 0, 0);
  load_modules();
  while ((port = open_port()) < 0) usleep(20000);
  /* A virtio port hangs up until its other end is open. */
  for (struct pollfd open = {port, POLLIN, 0}; poll(&open, 1, 0) >= 0 && open.revents & POLLHUP;) usleep(20000);
  if (ATTACK == DEEP_HELLO) {
    memset(payload, '[', 60000);
    say(HELLO, 0, payload, 60000);
    hang();
  }
  say_text(HELLO, 0, "{\"schema\": \"vtare.agent/1\", \"problems\": []}");
  uint8_t head[17];
  while (take(head, sizeof head)) {
    uint32_t job, length;
    memcpy(&job, head + 5, 4);
    memcpy(&length, head + 9, 4);
    if (length >= sizeof payload - 4 || !take(payload, length + 4)) break;
    payload[length] = 0;
    if (head[4] == END) break;
    answer(head[4], job);
  }
  hang();
}
