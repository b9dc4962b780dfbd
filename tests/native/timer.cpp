// vtare::Timer, vtare::clock and the sleeps: arithmetic at compile time where it can be, ranges at their ends.
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <iostream>
#include <limits>
#include <mutex>
#include <ratio>
#include <sstream>
#include <string>
#include <type_traits>

#include <vtare_clock.hpp>

using vtare::Timer;
using Limits = std::numeric_limits<std::int64_t>;

// TrivialClock, requirement by requirement.
static_assert(std::is_same<vtare::clock::duration, std::chrono::duration<vtare::clock::rep, vtare::clock::period>>::value, "");
static_assert(std::is_same<vtare::clock::time_point, std::chrono::time_point<vtare::clock>>::value, "");
static_assert(std::is_same<decltype(vtare::clock::now()), vtare::clock::time_point>::value, "");
static_assert(noexcept(vtare::clock::now()) && vtare::clock::is_steady && !vtare::unordered_clock::is_steady, "");
static_assert(std::is_arithmetic<vtare::clock::rep>::value, "");
#if __cplusplus >= 202002L
static_assert(std::chrono::is_clock_v<vtare::clock> && std::chrono::is_clock_v<vtare::unordered_clock>);
#endif

static_assert(Timer(2, 500000000).count() == 2500000000, "");
static_assert(Timer(-1, 250000000).count() == -750000000, "");
static_assert(Timer(-1, 250000000).seconds() == -1 && Timer(-1, 250000000).nanoseconds() == 250000000, "");
static_assert(Timer(3).seconds() == 3 && Timer(3).nanoseconds() == 0, "");
static_assert(Timer(0, 1999999999).seconds() == 1 && Timer(0, 1999999999).nanoseconds() == 999999999, "");
static_assert(Timer(1) + Timer(0, 1) > Timer(1) && Timer(1) - Timer(2) == Timer(-1) && -Timer(5) == Timer(-5), "");
static_assert(Timer(1) <= Timer(1) && Timer(1) >= Timer(1) && Timer(1) != Timer(2) && Timer(1) < Timer(2), "");
static_assert(Timer(1) * 3 == Timer(3) && 3 * Timer(1) == Timer(3) && Timer(3) / 2 == Timer(1, 500000000), "");
static_assert(Timer(std::chrono::milliseconds(5)) == Timer(0, 5000000), "");
// At the ends of the range it stays there.
static_assert(Timer(Limits::max()).count() == Limits::max() && Timer(Limits::min()).count() == Limits::min(), "");
static_assert((Timer::from_count(Limits::max()) + Timer(1)).count() == Limits::max(), "");
static_assert((Timer::from_count(Limits::min()) - Timer(1)).count() == Limits::min(), "");
static_assert((-Timer::from_count(Limits::min())).count() == Limits::max(), "");
static_assert((Timer::from_count(Limits::min()) / -1).count() == Limits::max(), "");
static_assert((Timer::from_count(Limits::min()) * 1).count() == Limits::min(), "");
static_assert(Timer::from_count(Limits::min()).seconds() == -9223372037 && Timer::from_count(Limits::min()).nanoseconds() == 145224192, "");

// Sleeps round up; what is negative, no number or too long has its place.
static_assert(vtare::detail::nanoseconds_up(std::chrono::duration<double, std::nano>(0.25)) == 1, "");
static_assert(vtare::detail::nanoseconds_up(std::chrono::duration<double>(-1)) == 0, "");
static_assert(vtare::detail::nanoseconds_up(std::chrono::duration<double>(std::numeric_limits<double>::quiet_NaN())) == 0, "");
static_assert(vtare::detail::nanoseconds_up(std::chrono::hours::max()) == static_cast<std::uint64_t>(Limits::max()), "");
static_assert(vtare::detail::nanoseconds_up(std::chrono::duration<std::int64_t, std::pico>(1001)) == 2, "");

#define CHECK(what)                                                                                                        \
    if (!(what)) {                                                                                                         \
        std::cerr << __LINE__ << ": " #what "\n";                                                                          \
        return 1;                                                                                                          \
    }

static std::string written(Timer timer) {
    std::ostringstream out;
    out << timer;
    return out.str();
}

int main() {
    CHECK(written(Timer(-1, 250000000)) == "-0.750000000");
    CHECK(written(Timer(12, 34)) == "12.000000034");
    CHECK(written(Timer::from_count(Limits::min())) == "-9223372036.854775808");

    const auto first = vtare::clock::now();
    CHECK(vtare::clock::now() >= first);
    vtare::sleep_until(first + std::chrono::microseconds(300));
    CHECK(vtare::clock::now() >= first + std::chrono::microseconds(300));
    const Timer begun = Timer::now_ordered();
    vtare::sleep_for(std::chrono::duration<double>(0.0002));
    CHECK(Timer::now_ordered() - begun >= Timer(0, 200000));
    vtare::sleep_for(std::chrono::seconds(-5));
    vtare::sleep_until(Timer::now() + Timer(0, 1000));
    CHECK(vtare::clock::from_steady(vtare::clock::to_steady(first)) == first);

    std::mutex mutex;
    std::condition_variable never;
    std::unique_lock<std::mutex> lock(mutex);
    const auto deadline = vtare::clock::now() + std::chrono::milliseconds(2);
    CHECK(!never.wait_until(lock, vtare::clock::to_steady(deadline), [] { return false; }));
    CHECK(never.wait_until(lock, deadline) == std::cv_status::timeout);

    try {
        vtare::set_sleep_policy("nap");
        return 1;
    } catch (const vtare::error& error) {
        CHECK(error.code().value() == EINVAL && std::string(error.what()).find("`nap`") != std::string::npos);
    }
    try {
        vtare::Ticker zero(std::chrono::seconds(0));
        return 1;
    } catch (const vtare::error&) {
    }
    return 0;
}
