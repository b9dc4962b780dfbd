// A lease and commit-wait by confirmed readings, as lease.c has them.
//
//     c++ -std=c++17 lease.cpp $(pkg-config --cflags --libs vtare_clock) -o lease
//     VTARE_WITNESSES=h1,h2,h3 VTARE_KEY=... ./lease
//
// Ends with 1 where the lease had ended before the act was confirmed, with 2 where UTC is not confirmed.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>

#include <vtare_clock.hpp>

// A time that has passed when this returns, and had not come when it was called.
static std::uint64_t commit() {
    const std::uint64_t at = vtare::now_utc_confirmed().latest_ns;
    for (std::uint64_t passed; (passed = vtare::now_utc_confirmed().earliest_ns) <= at;) {
        vtare::sleep_for(std::chrono::nanoseconds(at - passed + 1));
    }
    return at;
}

// Whether an act that is done by now was done within the lease: looking before it proves nothing.
static bool acted_within(std::uint64_t lease_ends_ns) {
    return vtare::now_utc_confirmed().latest_ns < lease_ends_ns;
}

int main() {
    try {
        if (const char* list = std::getenv("VTARE_WITNESSES")) {
            vtare::clock_witness(list); // what the variable does by itself: here a program names its own
        }
        const struct vtare_utc_confirmed now = vtare::now_utc_confirmed();
        std::cout << now.hosts << " hosts, of which " << now.liars << " may be wrong\n";
        std::cout << "committed at " << commit() << '\n';
        const bool held = acted_within(now.latest_ns + 2000000000u);
        std::cout << "the lease " << (held ? "held" : "had ended: take the act back") << '\n';
        return held ? 0 : 1;
    } catch (const vtare::error& error) {
        std::cerr << error.what() << '\n';
        return 2;
    }
}
