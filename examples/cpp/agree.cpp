// Reads vtare's clock as a std::chrono clock between two readings of the kernel's, paces a loop, and prints both results.
//
//     c++ -std=c++17 agree.cpp $(pkg-config --cflags --libs vtare_clock) -o agree && ./agree
//
// Ends with 1 where a reading lies further from the kernel's clock than the library states, or a wait ended early.
#include <chrono>
#include <iostream>

#include <vtare_clock.hpp>

int main() {
    using namespace std::chrono_literals;
    using std::chrono::steady_clock; // CLOCK_MONOTONIC on Linux

    constexpr int readings = 1000;
    int outside = 0;
    for (int i = 0; i < readings; ++i) {
        const auto before = steady_clock::now();
        const auto ours = vtare::clock::to_steady(vtare::clock::now());
        const auto after = steady_clock::now();
        const auto bound = std::chrono::nanoseconds(static_cast<long long>(vtare::clock_info().error_bound_ns) + 1);
        outside += ours + bound < before || ours > after + bound ? 1 : 0;
    }
    const auto info = vtare::clock_info();
    std::cout << "source " << info.source << ", stated error " << info.error_bound_ns << " ns: " << outside << " of "
              << readings << " readings outside\n";

    // A timer is one 64-bit count; its parts are computed when asked for.
    const vtare::Timer begun = vtare::Timer::now();
    vtare::set_sleep_policy("adaptive");
    bool early = false;
    vtare::Ticker ticker(200us);
    for (int i = 0; i < 10; ++i) {
        const auto deadline = ticker.next();
        ticker.wait();
        early = early || vtare::clock::now() < deadline;
    }
    const vtare::Timer took = vtare::Timer::now() - begun;
    std::cout << "10 periods of 200 us took " << took.seconds() << " s and " << took.nanoseconds() << " ns, "
              << ticker.missed() << " missed; last miss " << vtare::last_sleep().miss_ns << " ns\n";

    const vtare::checked reading = vtare::now_checked();
    const struct vtare_utc_interval utc = vtare::now_utc_interval();
    std::cout << "generation " << reading.generation << "; UTC has status " << utc.status << '\n';

    vtare::sleep_for(vtare::Timer(0, 300000));
    try {
        vtare::set_sleep_policy("nap");
        return 1;
    } catch (const vtare::error& error) {
        std::cout << "as it should be: " << error.what() << '\n';
    }
    return outside != 0 || early ? 1 : 0;
}
