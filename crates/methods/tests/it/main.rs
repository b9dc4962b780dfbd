//! The methods against simulated paths and published references.

mod avb_absurd;
mod avb_cells;
mod avb_classic;
mod avb_on_sim;
mod avb_sim;
mod mlrsearch_reference;
mod path_on_sim;
mod plrsearch_on_sim;
mod throughput_on_sim;
