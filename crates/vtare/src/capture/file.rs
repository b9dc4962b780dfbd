//! Reading a capture file.

use std::collections::BTreeMap;
use std::path::Path;

use vtare_capture::Tally;
use vtare_capture::frame::{self, LinkType, NoPacket, Protocol, Tunnel};
use vtare_capture::pcap::Reader;
use vtare_capture::probe::{self, Probe, Wanted};
use vtare_sys::named_file;

use super::aggregate::Aggregate;
use super::cell::{CaptureCell, FileFacts, NamedFrames};
use super::parameters::Parameters;
use crate::failure::Failure;
use crate::instrument::{Note, Outcome, Session};
use crate::sentences::capture as words;

/// Frames between two checks of the stop flag.
const FRAMES_A_LOOK: u64 = 1 << 14;

/// Reads the probes of the file at `path`.
///
/// # Errors
/// For a file that cannot be read or is damaged.
pub(super) fn read(
    path: &Path,
    parameters: &Parameters,
    session: &mut Session<'_>,
) -> Result<Outcome<CaptureCell>, Failure> {
    let wrong = |error: &dyn std::fmt::Display| {
        Failure::Input(format!("cannot read {}: {error}: give a capture file", path.display()))
    };
    let file = named_file::open(path).map_err(|error| wrong(&error))?;
    let mut reader = Reader::open(file).map_err(|error| wrong(&error))?;
    let wanted = parameters.wanted();
    let mut aggregate = Aggregate::new(parameters.packets);
    let progress = session.context.progress(&format!("read {}", path.display()), parameters.packets.unwrap_or(0));
    let mut facts = FileFacts { format: Some(reader.format()), ..FileFacts::default() };
    let (mut tally, mut strange) = (Tally::default(), Vec::new());
    let (mut tunnels, mut passed) = (BTreeMap::<Tunnel, u64>::new(), BTreeMap::<Protocol, u64>::new());
    let mut failed = None;
    let mut stopped = false;
    while !aggregate.is_full() {
        let Some(frame) = reader.next_frame().map_err(|error| wrong(&error))? else { break };
        facts.frames += 1;
        if facts.frames.is_multiple_of(FRAMES_A_LOOK) {
            progress.set(aggregate.packets());
            stopped = session.context.stop_requested();
            if stopped {
                break;
            }
        }
        let Some(link) = LinkType::from_number(frame.link) else {
            if !strange.contains(&frame.link) {
                strange.push(frame.link);
            }
            continue;
        };
        let packet = match frame::read(link, frame.bytes) {
            Ok(packet) => packet,
            Err(why) => {
                tally.refuse(why);
                if let NoPacket::Other(protocol) = why {
                    *passed.entry(protocol).or_default() += 1;
                }
                continue;
            }
        };
        if let Some(tunnel) = packet.tunnel {
            *tunnels.entry(tunnel).or_default() += 1;
        }
        let mut take = |probe: Probe| {
            let direction = frame.direction.or(probe.direction);
            match frame.captured_ns {
                Some(at) if failed.is_none() => {
                    failed = aggregate.take(at, &Probe { direction, ..probe }, &mut session.samples).err();
                }
                Some(_) => {}
                None => facts.unstamped += 1,
            }
        };
        let found = probe::find(&packet, None, &wanted, &mut take);
        if found != probe::Found::default() {
            tally.add(found);
        } else if is_at_ports(&packet, &wanted) {
            tally.foreign += 1;
        } else {
            let kind = match packet.transport {
                frame::Transport::Udp { .. } => Protocol::OtherPorts,
                frame::Transport::Echo { .. } => Protocol::Echo,
            };
            *passed.entry(kind).or_default() += 1;
        }
        if let Some(error) = failed {
            return Err(error.into());
        }
    }
    drop(progress);
    facts.tunnels = named(tunnels, |tunnel| tunnel.as_str().to_owned());
    facts.passed_over = named(passed, ToString::to_string);
    let counts = reader.counts();
    (facts.dropped_by_interface, facts.dropped_by_system) = (counts.dropped_by_interface, counts.dropped_by_system);
    facts.cut_at_byte = reader.cut_short().map(|cut| cut.offset);
    let mut cell = CaptureCell {
        source: path.display().to_string(),
        hook: "file",
        chosen_because: "asked for".to_owned(),
        stamp_clock: "realtime",
        ..CaptureCell::default()
    };
    cell.count(tally);
    // What the writer lost is in no classic file, and in a newer one only if the writer recorded it.
    cell.lost = match (counts.dropped_by_interface, counts.dropped_by_system) {
        (None, None) => None,
        (a, b) => Some(a.unwrap_or(0) + b.unwrap_or(0)),
    };
    let mut notes = remarks(&facts, &strange, reader.cut_short().map(|cut| cut.there_byte));
    cell.file = Some(facts);
    aggregate.close(&mut cell);
    notes.extend(cell.negative_note());
    Ok(Outcome { cells: vec![cell], notes, interrupted: stopped })
}

/// What was counted by kind, the most frequent first.
fn named<K>(counts: BTreeMap<K, u64>, name: impl Fn(&K) -> String) -> Vec<NamedFrames> {
    let mut found: Vec<_> = counts.iter().map(|(kind, &frames)| NamedFrames { name: name(kind), frames }).collect();
    found.sort_by_key(|one| std::cmp::Reverse(one.frames));
    found
}

/// Whether a packet goes to or comes from a port that is captured: files hold other traffic, too.
fn is_at_ports(packet: &frame::Packet<'_>, wanted: &Wanted) -> bool {
    match packet.transport {
        frame::Transport::Udp { source, destination } => {
            wanted.ports.iter().chain(&wanted.stamp).any(|port| [source, destination].contains(port))
        }
        frame::Transport::Echo { .. } => false,
    }
}

fn remarks(facts: &FileFacts, strange: &[u16], there_byte: Option<u64>) -> Vec<Note> {
    let mut notes = Vec::new();
    if let (Some(at), Some(there)) = (facts.cut_at_byte, there_byte) {
        notes.push(Note::new("file_cut", words::file_cut(there, at)));
    }
    if !strange.is_empty() {
        let list: Vec<String> = strange.iter().map(u16::to_string).collect();
        notes.push(Note::new("link_type_unknown", words::link_types(list.join(", "))));
    }
    if facts.unstamped > 0 {
        notes.push(Note::new("no_stamp", words::unstamped(facts.unstamped)));
    }
    notes
}
