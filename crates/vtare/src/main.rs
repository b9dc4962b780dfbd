//! `vtare`, the instruments: one static binary that measures and writes samples. May touch: all
//! crates but capi, preload and responsiveness.
//!
//! Each subcommand is one module. `instrument.rs` is what they share: parameters in, cells and samples out.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

#[macro_use]
mod message;
#[macro_use]
mod samples;

mod agent;
mod answer;
mod arguments;
mod avb;
mod black_hole;
mod capture;
mod check;
mod cli;
mod clock;
mod commands;
mod completions;
mod context;
mod costs;
mod counter;
mod document;
#[cfg(debug_assertions)]
mod document_schemas;
mod events;
mod examples;
mod exec;
mod failure;
mod generate;
mod help;
mod instrument;
mod instruments;
mod lab;
mod lab_tree;
mod limits;
mod link;
mod link_counter;
mod load_command;
mod load_net;
mod measure;
mod nearest;
mod noise;
mod note;
mod output;
mod own_program;
mod parameters;
mod path;
mod peers;
mod progress;
mod quantities;
mod requests;
mod rpm;
mod rtt;
mod run_file;
mod schema;
mod selftest;
mod sentences;
mod serve;
mod shaper;
mod sleep;
mod standstill;
mod table;
mod terminal;
mod throughput;
mod timer;
mod torture;
mod trials;
mod usage;

fn main() -> std::process::ExitCode {
    completions::answer(cli::parser).unwrap_or_else(cli::main)
}
