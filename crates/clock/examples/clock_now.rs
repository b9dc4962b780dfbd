//! What the clock found on this machine, and how far it is from the kernel's after a while.
use vtare_clock::{Clock, ClockOptions};
use vtare_sys::clocks;
use vtare_units::{Monotonic, Span};

fn main() {
    let clock = Clock::start(&ClockOptions::default());
    println!("{:#?}", clock.info());
    for _ in 0..5 {
        let until = clocks::now::<Monotonic>() + Span::from_millis(500);
        while clock.now() < until {}
        let before = clocks::now::<Monotonic>();
        let ours = clock.now_ordered();
        let after = clocks::now::<Monotonic>();
        println!("{} .. {} of the kernel's clock", ours - before, after - ours);
    }
    println!("{:#?}", clock.info());
}
