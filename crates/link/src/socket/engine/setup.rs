//! What a link's socket is asked for, and what was refused.

use vtare_probe::link::{Facts, Refusal, StampSource};
use vtare_sys::SysError;
use vtare_sys::net::hardware::{self, CardClock, CardStamps};
use vtare_sys::net::interface::Interface;
use vtare_sys::net::{PathMtu, Socket, StampFlags};
use vtare_units::Span;

use crate::socket::options::SocketOptions;

pub(super) fn refusal(wanted: &str, reason: impl std::fmt::Display) -> Refusal {
    Refusal { wanted: wanted.to_owned(), reason: reason.to_string() }
}

/// Asks a socket for one thing after another and keeps what was refused.
pub(super) struct Setup<'a> {
    pub(super) socket: &'a Socket,
    pub(super) facts: &'a mut Facts,
}

impl Setup<'_> {
    fn ask(&mut self, wanted: &str, answer: Result<(), SysError>) -> bool {
        match answer {
            Ok(()) => true,
            Err(error) => {
                self.facts.refusals.push(refusal(wanted, error));
                false
            }
        }
    }

    pub(super) fn plain(&mut self, options: &SocketOptions, udp: bool) {
        let socket = self.socket;
        self.ask("path_mtu", socket.path_mtu(PathMtu::Refuse));
        self.ask("ttl", socket.report_ttl());
        let counted = self.ask("drop_counter", socket.drops().map(drop));
        self.facts.capabilities.counts_drops = counted;
        let wanted = i32::try_from(options.buffer_byte).unwrap_or(i32::MAX);
        match socket.set_buffers(wanted) {
            Ok((receive, send)) if receive.min(send) < wanted => {
                let reason = format!(
                    "{} B of {wanted} B: run as root, or raise net.core.rmem_max and wmem_max",
                    receive.min(send)
                );
                self.facts.refusals.push(refusal("receive_buffer", reason));
            }
            Ok(_) => {}
            Err(error) => self.facts.refusals.push(refusal("receive_buffer", error)),
        }
        if options.gso && udp {
            self.facts.capabilities.gso = self.ask("gso", socket.probe_segmentation());
        }
        if options.gro && udp {
            self.facts.capabilities.gro = self.ask("gro", socket.merge_arrivals());
        }
        if let Some(micros) = options.busy_poll_us {
            self.ask("busy_poll", socket.busy_poll(Span::from_micros(micros.into())));
        }
        if let Some(class) = options.class {
            self.ask("class", socket.set_class(class).and_then(|()| socket.report_class()));
        }
        if let Some(keeper) = &options.launch {
            self.facts.capabilities.launch_time = self.ask("launch_time", socket.launch_times(keeper.clock));
        }
    }

    pub(super) fn stamps(&mut self, options: &SocketOptions, interface: Option<&Interface>) -> Option<CardClock> {
        let card = options.hardware.then(|| self.card(interface)).flatten();
        let departures = options.tx_stamp_every > 0;
        let flags = StampFlags {
            receive_software: options.rx_stamps,
            receive_hardware: options.rx_stamps && card.as_ref().is_some_and(|(_, stamps)| stamps.arrivals),
            departures,
        };
        if flags == StampFlags::default() || !self.ask("stamps", self.socket.stamp(flags)) {
            return None;
        }
        let source = |by_card: bool| if by_card { StampSource::Hardware } else { StampSource::Software };
        let by_card = |wanted: fn(&CardStamps) -> bool| card.as_ref().is_some_and(|(_, stamps)| wanted(stamps));
        let capabilities = &mut self.facts.capabilities;
        capabilities.rx_stamp = options.rx_stamps.then(|| source(by_card(|stamps| stamps.arrivals)));
        capabilities.tx_stamp = departures.then(|| source(by_card(|stamps| stamps.departures)));
        capabilities.tx_stamp_every = options.tx_stamp_every;
        card.map(|(clock, _)| clock)
    }

    fn card(&mut self, interface: Option<&Interface>) -> Option<(CardClock, CardStamps)> {
        let name = interface.map_or("", |found| found.name.as_str());
        let answer = hardware::card_stamps(self.socket, name).and_then(|stamps| {
            let Some(clock) = stamps.clock else { return Ok(None) };
            hardware::turn_on(self.socket, name, stamps)?;
            Ok(Some((CardClock::open(clock)?, stamps)))
        });
        match answer {
            Ok(Some(found)) => Some(found),
            Ok(None) => {
                let reason = format!("{name} has no clock of its own, so it stamps nothing: software stamps are used");
                self.facts.refusals.push(refusal("tx_stamp_hardware", reason));
                None
            }
            Err(error) => {
                self.facts.refusals.push(refusal("tx_stamp_hardware", error));
                None
            }
        }
    }
}
