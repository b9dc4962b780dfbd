/* What stands in for vtare in a hostile container: `load idle` waits, anything else leaves what its first word names
 * as samples.parquet in the working directory. Built by tests/platforms/test_hostile_containers.py. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int count, char **words) {
  const char *what = count > 1 ? words[1] : "load";
  const char *place = "samples.parquet";
  static char line[1 << 16];
  if (!strcmp(what, "load")) for (;;) pause();
  unlink(place);
  rmdir(place);
  if (!strcmp(what, "link")) return symlink("/etc/hostname", place);
  if (!strcmp(what, "pipe")) return mkfifo(place, 0666);
  if (!strcmp(what, "directory")) return mkdir(place, 0777);
  if (!strcmp(what, "long")) return ftruncate(open(place, O_CREAT | O_WRONLY, 0666), 1L << 36) != 0;
  /* The program ends, and one that it has started holds its output open. */
  if (!strcmp(what, "held")) {
    if (fork() == 0) sleep(60);
    return 0;
  }
  for (;;) write(1, line, sizeof line);
}
