/* vtare_clock for C++17: a std::chrono clock, sleeps, and a timer of one 64-bit count. Header only, over vtare_clock.h.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#ifndef VTARE_CLOCK_HPP
#define VTARE_CLOCK_HPP

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <limits>
#include <ostream>
#include <string>
#include <system_error>
#include <type_traits>

#include "vtare_clock.h"

namespace vtare {

/* A failed call, with the library's sentence and its errno. */
class error : public std::system_error {
  public:
    error() : std::system_error(errno, std::generic_category(), vtare_error_message()) {}
};

/* A clock of <chrono> (TrivialClock, std::chrono::is_clock) in the domain of std::chrono::steady_clock on Linux. Ordered: a reading that
 * happened later, in whichever thread, is never the smaller. */
struct clock {
    using rep = std::int64_t;
    using period = std::nano;
    using duration = std::chrono::duration<rep, period>;
    using time_point = std::chrono::time_point<clock>;
    static constexpr bool is_steady = true;

    [[nodiscard]] static time_point now() noexcept {
        return time_point(duration(static_cast<rep>(vtare_now_ordered_ns())));
    }

    /* The same point for whatever waits on std::chrono::steady_clock (condition_variable::wait_until, ...). */
    template <class D>
    [[nodiscard]] static std::chrono::time_point<std::chrono::steady_clock, D>
    to_steady(const std::chrono::time_point<clock, D>& point) noexcept {
        return std::chrono::time_point<std::chrono::steady_clock, D>(point.time_since_epoch());
    }

    template <class D>
    [[nodiscard]] static std::chrono::time_point<clock, D>
    from_steady(const std::chrono::time_point<std::chrono::steady_clock, D>& point) noexcept {
        return std::chrono::time_point<clock, D>(point.time_since_epoch());
    }
};

/* The same clock at half the price: the CPU may move a reading among the instructions around it, by some ten nanoseconds either way. So it
 * is not steady in the sense of <chrono>, which looks across threads. Its points are those of vtare::clock. */
struct unordered_clock {
    using rep = clock::rep;
    using period = clock::period;
    using duration = clock::duration;
    using time_point = clock::time_point;
    static constexpr bool is_steady = false;

    [[nodiscard]] static time_point now() noexcept { return time_point(duration(static_cast<rep>(vtare_now_ns()))); }
};

/* A reading of vtare::clock, unordered, and its generation: between two of one generation no disruption was seen. */
struct checked {
    clock::time_point at;
    std::uint64_t generation;
};
[[nodiscard]] inline checked now_checked() noexcept {
    std::uint64_t generation = 0;
    const std::uint64_t at = vtare_now_checked(&generation);
    return {clock::time_point(clock::duration(static_cast<clock::rep>(at))), generation};
}

/* UTC now, as an interval in ns since 1970; `status` is what it is worth. Throws vtare::error. */
[[nodiscard]] inline struct vtare_utc_interval now_utc_interval() {
    struct vtare_utc_interval interval = {};
    interval.size = sizeof interval;
    if (vtare_now_utc_interval(&interval) != 0) {
        throw error();
    }
    return interval;
}

/* Names the witnesses of this process and the file of their key; null: those of the environment. Throws vtare::error. */
inline void clock_witness(const char* witnesses, const char* key_file = nullptr) {
    if (vtare_clock_witness(witnesses, key_file) != 0) {
        throw error();
    }
}

/* UTC as witnesses confirm it, in one round trip. Throws vtare::error. */
[[nodiscard]] inline struct vtare_utc_confirmed now_utc_confirmed() {
    struct vtare_utc_confirmed confirmed = {};
    confirmed.size = sizeof confirmed;
    if (vtare_now_utc_confirmed(&confirmed) != 0) {
        throw error();
    }
    return confirmed;
}

namespace detail {

/* Whole nanoseconds, up: a sleep is never shorter than asked. Negative is 0; what does not fit is the longest. */
template <class Rep, class Period>
[[nodiscard]] constexpr std::uint64_t nanoseconds_up(const std::chrono::duration<Rep, Period>& span) {
    using std::chrono::duration;
    if (!(span > span.zero())) { /* this form also turns a NaN away */
        return 0;
    }
    constexpr long double most = static_cast<long double>(std::numeric_limits<std::int64_t>::max());
    if (duration<long double, std::nano>(span).count() >= most) {
        return static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    }
    return static_cast<std::uint64_t>(std::chrono::ceil<std::chrono::duration<std::int64_t, std::nano>>(span).count());
}

} /* namespace detail */

/* Sleeps until `deadline`, through signals, as std::this_thread does. Throws vtare::error. */
template <class D>
void sleep_until(const std::chrono::time_point<clock, D>& deadline) {
    const std::uint64_t until = detail::nanoseconds_up(deadline.time_since_epoch());
    while (vtare_sleep_until_ns(until) != 0) {
        if (errno != EINTR) {
            throw error();
        }
    }
}

/* Sleeps for `span` from now, through signals. Throws vtare::error. */
template <class Rep, class Period>
void sleep_for(const std::chrono::duration<Rep, Period>& span) {
    const std::uint64_t wanted = detail::nanoseconds_up(span);
    const std::uint64_t now = vtare_now_ns();
    const std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
    const std::uint64_t until = wanted > most - now ? most : now + wanted;
    while (vtare_sleep_until_ns(until) != 0) {
        if (errno != EINTR) {
            throw error();
        }
    }
}

/* How this thread sleeps: by number, or by name. Throws vtare::error with the choices where there is no such policy. */
inline void set_sleep_policy(enum vtare_sleep_policy policy) {
    if (vtare_set_sleep_policy(static_cast<int>(policy)) != 0) {
        throw error();
    }
}
inline void set_sleep_policy(const std::string& name) {
    if (vtare_set_sleep_policy_name(name.c_str()) != 0) {
        throw error();
    }
}

/* How this thread's last sleep ended. Throws vtare::error where it has not slept. */
[[nodiscard]] inline struct vtare_sleep_result last_sleep() {
    struct vtare_sleep_result result = {};
    result.size = sizeof result;
    if (vtare_last_sleep(&result) != 0) {
        throw error();
    }
    return result;
}

/* What the clock reports of itself. Throws vtare::error. */
[[nodiscard]] inline struct vtare_clock_info clock_info() {
    struct vtare_clock_info info = {};
    info.size = sizeof info;
    if (vtare_clock_info(&info) != 0) {
        throw error();
    }
    return info;
}

/* A point in time or a length of it, with the arithmetic of HighPerTimer: inside is one signed 64-bit count of nanoseconds; seconds and
 * the nanoseconds beyond them are computed only when they are asked for. Reaches 292 years either way; arithmetic saturates there. */
class Timer {
  public:
    static constexpr std::int64_t per_second = 1000000000;

    constexpr Timer() noexcept = default;

    /* `seconds` and `nanoseconds` are added: Timer(-1, 250000000) is -0.75 s. */
    constexpr explicit Timer(std::int64_t seconds, std::int64_t nanoseconds = 0) noexcept
        : count_(sum(product(seconds, per_second), nanoseconds)) {}

    template <class Rep, class Period>
    constexpr explicit Timer(const std::chrono::duration<Rep, Period>& span)
        : count_(std::chrono::duration_cast<std::chrono::duration<std::int64_t, std::nano>>(span).count()) {}

    [[nodiscard]] static constexpr Timer from_count(std::int64_t nanoseconds) noexcept {
        Timer timer;
        timer.count_ = nanoseconds;
        return timer;
    }
    /* The clock now, unordered; and ordered, for timing code. */
    [[nodiscard]] static Timer now() noexcept { return from_count(static_cast<std::int64_t>(vtare_now_ns())); }
    [[nodiscard]] static Timer now_ordered() noexcept {
        return from_count(static_cast<std::int64_t>(vtare_now_ordered_ns()));
    }

    /* The count itself, in ns. */
    [[nodiscard]] constexpr std::int64_t count() const noexcept { return count_; }
    /* Whole seconds, rounded down, and the nanoseconds beyond them, 0 to 999999999: as struct timespec has them. */
    [[nodiscard]] constexpr std::int64_t seconds() const noexcept {
        return count_ / per_second - (count_ % per_second < 0 ? 1 : 0);
    }
    [[nodiscard]] constexpr std::int64_t nanoseconds() const noexcept {
        const std::int64_t rest = count_ % per_second;
        return rest < 0 ? rest + per_second : rest;
    }
    [[nodiscard]] constexpr double as_seconds() const noexcept { return static_cast<double>(count_) / 1e9; }
    [[nodiscard]] constexpr clock::duration duration() const noexcept { return clock::duration(count_); }
    [[nodiscard]] constexpr clock::time_point time_point() const noexcept { return clock::time_point(duration()); }

    constexpr Timer& operator+=(Timer other) noexcept {
        count_ = sum(count_, other.count_);
        return *this;
    }
    constexpr Timer& operator-=(Timer other) noexcept {
        count_ = difference(count_, other.count_);
        return *this;
    }
    constexpr Timer& operator*=(std::int64_t factor) noexcept {
        count_ = product(count_, factor);
        return *this;
    }
    /* Rounds towards zero; `divisor` is not 0. */
    constexpr Timer& operator/=(std::int64_t divisor) noexcept {
        count_ = divisor == -1 ? difference(0, count_) : count_ / divisor;
        return *this;
    }
    [[nodiscard]] constexpr Timer operator-() const noexcept { return from_count(difference(0, count_)); }

    [[nodiscard]] friend constexpr Timer operator+(Timer a, Timer b) noexcept { return a += b; }
    [[nodiscard]] friend constexpr Timer operator-(Timer a, Timer b) noexcept { return a -= b; }
    [[nodiscard]] friend constexpr Timer operator*(Timer a, std::int64_t factor) noexcept { return a *= factor; }
    [[nodiscard]] friend constexpr Timer operator*(std::int64_t factor, Timer a) noexcept { return a *= factor; }
    [[nodiscard]] friend constexpr Timer operator/(Timer a, std::int64_t divisor) noexcept { return a /= divisor; }
    [[nodiscard]] friend constexpr bool operator==(Timer a, Timer b) noexcept { return a.count_ == b.count_; }
    [[nodiscard]] friend constexpr bool operator!=(Timer a, Timer b) noexcept { return a.count_ != b.count_; }
    [[nodiscard]] friend constexpr bool operator<(Timer a, Timer b) noexcept { return a.count_ < b.count_; }
    [[nodiscard]] friend constexpr bool operator>(Timer a, Timer b) noexcept { return a.count_ > b.count_; }
    [[nodiscard]] friend constexpr bool operator<=(Timer a, Timer b) noexcept { return a.count_ <= b.count_; }
    [[nodiscard]] friend constexpr bool operator>=(Timer a, Timer b) noexcept { return a.count_ >= b.count_; }

    /* Seconds with nine decimals, exact: -0.750000000. */
    friend std::ostream& operator<<(std::ostream& out, Timer timer) {
        const bool negative = timer.count_ < 0;
        const std::uint64_t bits = static_cast<std::uint64_t>(timer.count_);
        const std::uint64_t size = negative ? 0 - bits : bits;
        const std::string digits = std::to_string(size % static_cast<std::uint64_t>(per_second));
        return out << (negative ? "-" : "") << std::to_string(size / static_cast<std::uint64_t>(per_second)) << '.'
                   << std::string(9 - digits.size(), '0') << digits;
    }

  private:
    using limits = std::numeric_limits<std::int64_t>;

    static constexpr std::int64_t sum(std::int64_t a, std::int64_t b) noexcept {
        if (b > 0 && a > limits::max() - b) {
            return limits::max();
        }
        if (b < 0 && a < limits::min() - b) {
            return limits::min();
        }
        return a + b;
    }
    static constexpr std::int64_t difference(std::int64_t a, std::int64_t b) noexcept {
        if (b < 0 && a > limits::max() + b) {
            return limits::max();
        }
        if (b > 0 && a < limits::min() + b) {
            return limits::min();
        }
        return a - b;
    }
    static constexpr std::int64_t product(std::int64_t a, std::int64_t b) noexcept {
        if (a == 0 || b == 0) {
            return 0;
        }
        const bool negative = (a < 0) != (b < 0);
        const std::uint64_t size_a = a < 0 ? 0 - static_cast<std::uint64_t>(a) : static_cast<std::uint64_t>(a);
        const std::uint64_t size_b = b < 0 ? 0 - static_cast<std::uint64_t>(b) : static_cast<std::uint64_t>(b);
        const std::uint64_t most = static_cast<std::uint64_t>(limits::max());
        if (size_a > most / size_b) {
            return negative ? limits::min() : limits::max();
        }
        const std::int64_t size = static_cast<std::int64_t>(size_a * size_b);
        return negative ? -size : size;
    }

    std::int64_t count_ = 0;
};

static_assert(sizeof(Timer) == sizeof(std::int64_t), "a timer is its count");
static_assert(std::is_trivially_copyable<Timer>::value, "a timer is copied as a number is");

/* Sleeps until the clock shows `deadline`; for `span`, named so that the two cannot be confused. Throws vtare::error. */
inline void sleep_until(Timer deadline) { sleep_until(deadline.time_point()); }
inline void sleep_for(Timer span) { sleep_for(span.duration()); }

/* Deadlines at a fixed distance, without drift; for one thread at a time. */
class Ticker {
  public:
    template <class Rep, class Period>
    explicit Ticker(const std::chrono::duration<Rep, Period>& period) {
        if (vtare_ticker_init(&ticker_, detail::nanoseconds_up(period)) != 0) {
            throw error();
        }
    }
    /* Sleeps until the next deadline, through signals; answers how many deadlines passed unseen since the last wait. */
    std::uint64_t wait() {
        const std::uint64_t before = ticker_.missed;
        while (vtare_ticker_wait(&ticker_) != 0) {
            if (errno != EINTR) {
                throw error();
            }
        }
        return ticker_.missed - before;
    }
    [[nodiscard]] std::uint64_t ticks() const noexcept { return ticker_.ticks; }
    [[nodiscard]] std::uint64_t missed() const noexcept { return ticker_.missed; }
    [[nodiscard]] clock::time_point next() const noexcept {
        return clock::time_point(clock::duration(static_cast<clock::rep>(ticker_.next_ns)));
    }

  private:
    struct vtare_ticker ticker_ = {};
};

} /* namespace vtare */

#endif
