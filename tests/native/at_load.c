/* With VTARE_CLOCK_START=load the clock runs when main begins; without, it does not. The argument states what is
 * expected. */
#define _GNU_SOURCE
#include "check.h"

int main(int count, char **arguments) {
    CHECK(count == 2);
    const int expected = strcmp(arguments[1], "started") == 0;
    /* Thorough where it takes effect: calibration, and the test of the CPUs against each other. */
    const struct vtare_clock_options options = {sizeof options, VTARE_SOURCE_AUTO, 1, 0};
    const int answer = vtare_clock_start(&options);
    CHECK(answer == (expected ? -1 : 0));
    CHECK(!expected || errno == EALREADY);
    check_agreement();
    return 0;
}
