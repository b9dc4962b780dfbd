//! Capturing at an interface.

use std::time::Duration;

use vtare_capture::Tally;
use vtare_capture::probe::{Probe, Wanted};
use vtare_capture::ring::RingTap;
use vtare_capture::tc::TcTap;
use vtare_clock::Clock;
use vtare_sys::bpf::BpfError;
use vtare_sys::net::interface::{self, Interface};
use vtare_sys::{clocks, sched};
use vtare_units::Span;

use super::aggregate::Aggregate;
use super::cell::CaptureCell;
use super::parameters::{Hook, Parameters};
use crate::failure::Failure;
use crate::instrument::{Note, Outcome, Session, WALL_TIME_SET};
use crate::sentences::capture as words;
use crate::table::time;

/// The time between two reads of what was captured. Longer ones cost the probes less.
const TURN: Span = Span::from_millis(20);
/// Reads between two checks that the interface is still there, and two updates of the progress line.
const TURNS_A_LOOK: u32 = 25;

/// What is in place at the interface.
enum Tap<'c> {
    Tc(TcTap),
    Packet(RingTap<'c>),
}

impl Tap<'_> {
    const fn hook(&self) -> &'static str {
        match self {
            Self::Tc(_) => "tc",
            Self::Packet(_) => "packet",
        }
    }

    fn drain(&mut self, give: &mut dyn FnMut(u64, Probe)) -> Result<(), Failure> {
        match self {
            Self::Tc(tap) => tap.drain(give),
            Self::Packet(tap) => tap.drain(give)?,
        }
        Ok(())
    }

    /// Waits for a turn.
    fn wait(&self, clock: &Clock) -> Result<(), Failure> {
        match self {
            // A signal ends the sleep early.
            Self::Tc(_) => clocks::sleep_until(clock.now() + TURN).map(drop)?,
            Self::Packet(tap) => tap.wait(Duration::from_nanos(TURN.as_nanos_unsigned()))?,
        }
        Ok(())
    }

    fn tally(&self) -> Tally {
        match self {
            Self::Tc(tap) => tap.tally(),
            Self::Packet(tap) => tap.tally(),
        }
    }
}

/// Captures until the end that was asked for.
///
/// # Errors
/// For an interface that is not there or is down, and where this process may not capture.
pub(super) fn capture(
    name: &str,
    parameters: &Parameters,
    session: &mut Session<'_>,
) -> Result<Outcome<CaptureCell>, Failure> {
    let clock = session.clock();
    let context = session.context;
    let found = find(name)?;
    if let Some(cpu) = parameters.cpu {
        sched::pin_to(&[cpu])?;
    }
    let mut notes = Vec::new();
    let mut aggregate = Aggregate::new(parameters.packets);
    let progress = context.progress(&format!("capture {name}"), parameters.packets.unwrap_or(0));
    let (mut tap, chosen_because) = open(clock, &found, parameters)?;
    message!("ready");
    let started = clock.now();
    let limit = parameters.seconds.and_then(Span::try_from_secs_f64);
    let mut failed = None;
    let mut turn = 0_u32;
    let stopped = loop {
        let samples = &mut session.samples;
        let mut take = |at: u64, probe: Probe| {
            if failed.is_none() {
                failed = aggregate.take(at.cast_signed(), &probe, samples).err();
            }
        };
        tap.drain(&mut take)?;
        if let Some(error) = failed {
            return Err(error.into());
        }
        if aggregate.is_full() || limit.is_some_and(|limit| clock.now() - started >= limit) {
            break false;
        }
        if context.stop_requested() {
            // Where no other end was set, a signal is the ordinary one.
            break parameters.seconds.is_some() || parameters.packets.is_some();
        }
        turn += 1;
        if turn.is_multiple_of(TURNS_A_LOOK) {
            progress.set(aggregate.packets());
            progress.label(&format!("capture {name}: {} probes, {} lost", aggregate.packets(), tap.tally().lost));
            if !interface::exists(found.index) {
                notes.push(gone(name));
                break false;
            }
        }
        if let Err(error) = tap.wait(clock) {
            notes.push(Note::new("capture_ended", words::ended(error)));
            break false;
        }
    };
    let elapsed = clock.now() - started;
    // What the kernel still holds: nothing new comes from tc any more; a ring hands over its last block within a turn.
    match &mut tap {
        Tap::Tc(tap) => tap.detach(),
        Tap::Packet(_) => clocks::sleep_until(clock.now() + TURN).map(drop)?,
    }
    let mut take = |at: u64, probe: Probe| {
        if failed.is_none() {
            failed = aggregate.take(at.cast_signed(), &probe, &mut session.samples).err();
        }
    };
    tap.drain(&mut take)?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    drop(progress);
    let mut cell = CaptureCell {
        source: name.to_owned(),
        hook: tap.hook(),
        chosen_because,
        stamp_clock: "monotonic",
        captured_s: Some(elapsed.as_nanos() as f64 / 1e9),
        ..CaptureCell::default()
    };
    if let Tap::Packet(ring) = &tap {
        let (error_ns, steps) = ring.stamp_error();
        cell.stamp_error_ns = Some(error_ns);
        if steps > 0 {
            notes.push(Note::new(WALL_TIME_SET, words::wall_time_set(steps, time(Some(error_ns as f64)))));
        }
    }
    cell.count(tap.tally());
    aggregate.close(&mut cell);
    notes.extend(remarks(&cell));
    Ok(Outcome { cells: vec![cell], notes, interrupted: stopped })
}

fn gone(name: &str) -> Note {
    Note::new("interface_gone", words::interface_gone(name))
}

/// The interface of this name, which must be up.
fn find(name: &str) -> Result<Interface, Failure> {
    let found = crate::peers::interface_named(name)?;
    if !found.up {
        return Err(Failure::Machine(format!("the interface {name} is down: ip link set {name} up")));
    }
    Ok(found)
}

/// Puts the hook in place, and gives the reason for that one.
fn open<'c>(clock: &'c Clock, interface: &Interface, parameters: &Parameters) -> Result<(Tap<'c>, String), Failure> {
    let wanted: Wanted = parameters.wanted();
    let (name, ring_byte) = (&interface.name, parameters.ring_byte);
    let tc = || TcTap::open(interface.index, &wanted, ring_byte);
    let packet = || {
        RingTap::open(clock, interface.index, &wanted, ring_byte)
            .map_err(|error| Failure::Machine(format!("cannot capture on {name}: {error}")))
    };
    match parameters.hook {
        Hook::Tc => match tc() {
            Ok(tap) => Ok((Tap::Tc(tap), "asked for".to_owned())),
            Err(error) => Err(Failure::Machine(format!("cannot capture on {name}: {error}; or use --hook packet"))),
        },
        Hook::Packet => Ok((Tap::Packet(packet()?), "asked for".to_owned())),
        Hook::Auto => match tc() {
            Ok(tap) => Ok((Tap::Tc(tap), "costs the probes least".to_owned())),
            Err(error) => {
                let why = first_line(&error);
                Ok((Tap::Packet(packet()?), format!("tc was refused: {why}")))
            }
        },
    }
}

fn first_line(error: &BpfError) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

/// What a reader of the figures should know.
fn remarks(cell: &CaptureCell) -> Vec<Note> {
    let mut notes: Vec<Note> = cell.negative_note().into_iter().collect();
    if let Some(lost @ 1..) = cell.lost {
        notes.push(Note::new("capture_lost", words::too_slow(lost)));
    }
    if cell.unread + cell.unsplit > 0 {
        notes.push(Note::new("large_packets_unread", words::unread(cell.unsplit, cell.unread)));
    }
    if cell.merged > 0 {
        notes.push(Note::new("merged_packets", words::merged(cell.merged)));
    }
    notes
}
