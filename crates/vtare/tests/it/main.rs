//! The binary as it is shipped, run as a process. One test program, so that it is linked once.

mod addresses;
mod attacks;
mod avb;
mod avb_tcp;
mod capture;
mod check;
mod command_line;
mod common;
mod counter;
mod exec;
mod fuzz;
mod interrupt;
mod json;
mod link;
mod link_counter;
mod load;
mod output;
mod path;
mod rpm;
mod rtt;
mod run_file;
mod selftest;
mod serve;
mod spoiled;
mod throughput;
mod xdp;
