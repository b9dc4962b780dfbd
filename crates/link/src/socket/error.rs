use std::io;

use vtare_probe::link::LinkError;
use vtare_sys::SysError;
use vtare_sys::net::interface::{self, LinkCounters};

/// A system's refusal as an error of the link.
pub(crate) fn system(doing: &'static str) -> impl Fn(SysError) -> LinkError {
    move |error| LinkError::System { doing, source: io::Error::other(error.to_string()) }
}

/// What the interface called `name` has dropped since `before`: departures, arrivals.
pub(crate) fn dropped_since(name: &str, before: LinkCounters) -> Option<(u64, u64)> {
    let now = interface::all().ok()?.into_iter().find(|interface| interface.name == name)?.counters?;
    let since = |now: u32, before: u32| u64::from(now.wrapping_sub(before));
    Some((since(now.tx_dropped, before.tx_dropped), since(now.rx_dropped, before.rx_dropped)))
}
