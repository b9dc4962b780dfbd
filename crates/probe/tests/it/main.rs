//! Probes on simulated paths and on real sockets.

mod open_loop;
mod rtt_on_sim;
