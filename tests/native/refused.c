/* Wrong input is refused with errno and a sentence, and changes nothing; structures may be larger than the library's.
 */
#define _GNU_SOURCE
#include "check.h"

#define REFUSED(call, code, word) \
    do { \
        errno = 0; \
        CHECK((call) == -1); \
        CHECK(errno == (code)); \
        CHECK(strstr(vtare_error_message(), word) != NULL); \
    } while (0)

int main(void) {
    CHECK(vtare_clock_abi_version() == VTARE_CLOCK_ABI_VERSION);
    CHECK(strcmp(vtare_error_message(), "") == 0);
    struct vtare_clock_options options = {sizeof options, 7, 0, 0};
    REFUSED(vtare_clock_start(&options), EINVAL, "unknown clock source 7");
    options.size = 4;
    REFUSED(vtare_clock_start(&options), EINVAL, "size is 4: use sizeof(struct vtare_clock_options), 16 or more");
    const struct vtare_clock_options os = {sizeof os, VTARE_SOURCE_OS, 0, 0};
    CHECK(vtare_clock_start(&os) == 0);
    REFUSED(vtare_clock_start(&os), EALREADY, "runs already");
    CHECK(vtare_clock_start(NULL) == 0);

    struct {
        struct vtare_clock_info info;
        unsigned char later[64];
    } grown;
    memset(&grown, 0xAB, sizeof grown);
    grown.info.size = sizeof grown;
    CHECK(vtare_clock_info(&grown.info) == 0);
    CHECK(grown.info.size == sizeof grown.info);
    for (size_t i = 0; i < sizeof grown.later; i++) {
        CHECK(grown.later[i] == 0xAB);
    }
    CHECK(strcmp(grown.info.source, "os") == 0 && grown.info.path == VTARE_PATH_VDSO && grown.info.trusted == 0);
    CHECK(grown.info.anchor_age_ns != grown.info.anchor_age_ns);
    CHECK(grown.info.reason[0] != '\0');
    grown.info.size = 8;
    REFUSED(vtare_clock_info(&grown.info), EINVAL, "size is 8");
    REFUSED(vtare_clock_info(NULL), EINVAL, "NULL");
    check_agreement();

    const int64_t length = vtare_clock_info_json(NULL, 0);
    CHECK(length > 0);
    char cut[8];
    memset(cut, 'x', sizeof cut);
    CHECK(vtare_clock_info_json(cut, 5) > 4 && strlen(cut) == 4 && cut[5] == 'x');

    struct vtare_sleep_result slept;
    slept.size = sizeof slept;
    REFUSED(vtare_last_sleep(&slept), ENODATA, "not slept");
    CHECK(vtare_set_sleep_policy_name("os") == 0 && vtare_get_sleep_policy() == VTARE_SLEEP_CLOCK_NANOSLEEP);
    REFUSED(vtare_set_sleep_policy_name("nap"), EINVAL, "`nap`");
    CHECK(strstr(vtare_error_message(), "two_phase_capped") != NULL);
    REFUSED(vtare_set_sleep_policy_name(NULL), EINVAL, "adaptive");
    REFUSED(vtare_set_sleep_policy(8), EINVAL, "policy 8");
    REFUSED(vtare_set_sleep_policy(-1), EINVAL, "policy -1");
    struct vtare_sleep_options how;
    how.size = 4;
    REFUSED(vtare_get_sleep_options(&how), EINVAL, "size is 4");
    REFUSED(vtare_set_sleep_options(NULL), EINVAL, "NULL");
    how.size = sizeof how;
    CHECK(vtare_get_sleep_options(&how) == 0 && how.cpu_price_ns == 2000000 && how.slack_ns == 1);
    how.cpu_price_ns = 0;
    REFUSED(vtare_set_sleep_options(&how), EINVAL, "cpu_price_ns is 0");
    how.cpu_price_ns = 500000;
    how.cpu_share_ppm = 0;
    REFUSED(vtare_set_sleep_options(&how), EINVAL, "cpu_share_ppm is 0");
    how.cpu_share_ppm = 2000;
    how.slice_ns = 5;
    REFUSED(vtare_set_sleep_options(&how), EINVAL, "slice_ns is 5");
    how.slice_ns = 0;
    how.fifo_priority = 100;
    REFUSED(vtare_set_sleep_options(&how), EINVAL, "fifo_priority is 100");
    how.fifo_priority = 0;
    CHECK(vtare_set_sleep_options(&how) == 0);
    CHECK(vtare_get_sleep_options(&how) == 0 && how.cpu_price_ns == 500000 && how.slice_ns == 0);
    CHECK(vtare_get_sleep_policy() == VTARE_SLEEP_CLOCK_NANOSLEEP);
    CHECK(vtare_sleep_policy_name(8) == NULL && strcmp(vtare_sleep_policy_name(0), "adaptive") == 0);
    slept.size = 4;
    REFUSED(vtare_last_sleep(&slept), EINVAL, "size is 4");

    struct vtare_ticker ticker;
    memset(&ticker, 0, sizeof ticker);
    REFUSED(vtare_ticker_init(&ticker, 0), EINVAL, "period");
    REFUSED(vtare_ticker_wait(&ticker), EINVAL, "never begun");
    CHECK(vtare_ticker_init(&ticker, 100000) == 0);
    const uint64_t grid = ticker.next_ns;
    for (int i = 0; i < 5; i++) {
        const uint64_t deadline = ticker.next_ns;
        CHECK(vtare_ticker_wait(&ticker) == 0);
        CHECK(vtare_now_ordered_ns() >= deadline && (ticker.next_ns - grid) % 100000 == 0);
    }
    CHECK(ticker.ticks == ticker.missed + 5);
    /* What succeeds leaves errno alone. */
    errno = 77;
    CHECK(vtare_now_ns() > 0 && vtare_sleep_ns(100000) == 0 && vtare_sleep_until_ns(1) == 0 && errno == 77);
    return 0;
}
