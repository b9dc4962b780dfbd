"""The declarations of `vtare_clock.h` as cffi wants them: no comments, no preprocessor. A test compares the two."""

from __future__ import annotations

from typing import Final

ABI_VERSION: Final = 1
"""The binary interface that these declarations describe: `VTARE_CLOCK_ABI_VERSION` of the header."""

DECLARATIONS: Final = """
uint64_t vtare_now_ns(void);
uint64_t vtare_now_ordered_ns(void);
uint64_t vtare_now_checked(uint64_t *generation);
enum vtare_utc_status {
    VTARE_UTC_SYNCHRONIZED = 0,
    VTARE_UTC_FREE_RUNNING = 1,
    VTARE_UTC_DISRUPTED = 2,
    VTARE_UTC_UNKNOWN = 3
};
struct vtare_utc_interval {
    uint32_t size;
    uint32_t status;
    uint64_t earliest_ns;
    uint64_t latest_ns;
    uint64_t generation;
};
int vtare_now_utc_interval(struct vtare_utc_interval *interval);
struct vtare_utc_confirmed {
    uint32_t size;
    uint32_t hosts;
    uint64_t earliest_ns;
    uint64_t latest_ns;
    uint64_t generation;
    uint64_t round_trip_ns;
    uint32_t liars;
    uint32_t same_host;
    uint32_t stoppable;
    uint32_t reserved;
};
int vtare_clock_witness(const char *witnesses, const char *key_file);
int vtare_now_utc_confirmed(struct vtare_utc_confirmed *confirmed);
enum vtare_source {
    VTARE_SOURCE_AUTO = 0,
    VTARE_SOURCE_OS = 1
};
struct vtare_clock_options {
    uint32_t size;
    uint32_t source;
    uint32_t thorough;
    uint32_t reserved;
};
int vtare_clock_start(const struct vtare_clock_options *options);
enum vtare_path {
    VTARE_PATH_KERNEL_PAGE = 0,
    VTARE_PATH_LINE = 1,
    VTARE_PATH_VDSO = 2
};
struct vtare_clock_info {
    uint32_t size;
    uint32_t abi_version;
    uint32_t path;
    uint32_t trusted;
    double error_bound_ns;
    double read_cost_ns;
    double quantum_ns;
    double frequency_hz;
    double rate_error_ppm;
    double calibration_ns;
    double anchor_age_ns;
    double anchor_error_ns;
    double anchor_half_width_ns;
    double cross_core_low_ns;
    double cross_core_high_ns;
    uint32_t kernel_mult;
    uint32_t kernel_shift;
    uint64_t events_suspended;
    uint64_t events_migrated;
    uint64_t events_clock_source_changed;
    uint64_t events_seated;
    uint64_t events_rate_broken;
    uint64_t events_given_up;
    char source[16];
    char reason[240];
    uint64_t events_rate_contradicted;
};
int vtare_clock_info(struct vtare_clock_info *info);
int64_t vtare_clock_info_json(char *buffer, size_t size);
uint32_t vtare_clock_abi_version(void);
const char *vtare_clock_version(void);
uint64_t vtare_tick(void);
uint64_t vtare_tick_start(void);
uint64_t vtare_tick_stop(void);
int64_t vtare_ticks_to_ns(int64_t ticks);
int vtare_sleep_ns(uint64_t span_ns);
int vtare_sleep_until_ns(uint64_t deadline_ns);
enum vtare_sleep_policy {
    VTARE_SLEEP_ADAPTIVE = 0,
    VTARE_SLEEP_CLOCK_NANOSLEEP = 1,
    VTARE_SLEEP_TWO_PHASE = 2,
    VTARE_SLEEP_TWO_PHASE_CAPPED = 3,
    VTARE_SLEEP_SPIN = 4,
    VTARE_SLEEP_USLEEP = 5,
    VTARE_SLEEP_CHEAP = 6,
    VTARE_SLEEP_NEVER_EARLY = 7
};
int vtare_set_sleep_policy(int policy);
int vtare_set_sleep_policy_name(const char *name);
int vtare_get_sleep_policy(void);
const char *vtare_sleep_policy_name(int policy);
struct vtare_sleep_options {
    uint32_t size;
    uint32_t fifo_priority;
    uint64_t cpu_price_ns;
    uint64_t tolerance_ns;
    uint64_t slack_ns;
    uint64_t slice_ns;
    uint32_t slice_refused;
    uint32_t fifo_refused;
    uint32_t cpu_share_ppm;
    uint32_t reserved;
};
int vtare_get_sleep_options(struct vtare_sleep_options *options);
int vtare_set_sleep_options(const struct vtare_sleep_options *options);
struct vtare_sleep_result {
    uint32_t size;
    uint32_t disturbed;
    uint32_t interrupted;
    uint32_t policy;
    uint64_t deadline_ns;
    int64_t miss_ns;
    int64_t spin_ns;
};
int vtare_last_sleep(struct vtare_sleep_result *result);
struct vtare_ticker {
    uint32_t size;
    uint32_t reserved;
    uint64_t period_ns;
    uint64_t next_ns;
    uint64_t ticks;
    uint64_t missed;
};
int vtare_ticker_init(struct vtare_ticker *ticker, uint64_t period_ns);
int vtare_ticker_wait(struct vtare_ticker *ticker);
const char *vtare_error_message(void);
"""
