//! What one round trip of `vtare rtt --engine xdp` takes of a CPU, and what the kernel's way alone takes.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use vtare_control::{PresharedKey, client};
use vtare_link::xdp::probe::{Event, Plan, Target, XdpProbe};
use vtare_sys::bpf::{LiveRun, MapView, Maps, Object, Program, XdpLink};
use vtare_sys::net::interface;
use vtare_units::{Pace, Span};
use vtare_wire::Form;
use vtare_wire::session::{Open, Purpose, WireForm};

use crate::{Failed, pin};

/// Frames of one call of the bare program.
const FRAMES: u32 = 200_000;

/// What is measured.
pub(crate) struct Asked<'a> {
    pub(crate) address: &'a str,
    pub(crate) key: &'a str,
    /// Packets in all, one after the other as fast as they can.
    pub(crate) packets: u64,
    pub(crate) size_byte: u16,
    pub(crate) cpu: &'a str,
}

/// Sends without pause, each frame at once, and prints ns a packet and the round trips as one JSON line.
pub(crate) fn measure(asked: &Asked<'_>) -> Result<(), Failed> {
    let key = PresharedKey::read(Path::new(asked.key))?;
    let full = asked.size_byte >= 60;
    let request = Open {
        purpose: Purpose::Rtt,
        form: if full { WireForm::Full } else { WireForm::Short },
        rate_packet_per_s: 10_000_000,
        burst_packet: 10_000,
        duration_ns: 60_000_000_000,
        packets: asked.packets,
        size_byte: asked.size_byte,
        flows: None,
        ecn: false,
    };
    let std::net::SocketAddr::V4(peer) = asked.address.parse()? else { return Err("expected an IPv4 address".into()) };
    let far = client::open(peer.into(), Some(&key), &request, "bench", Span::from_secs(5))?;
    let std::net::IpAddr::V4(local) = far.local_address().ip() else { return Err("expected IPv4".into()) };
    let grant = far.grant().clone();
    let target = Target {
        peer,
        local,
        size_byte: asked.size_byte,
        form: if full { Form::Full } else { Form::Short },
        session: grant.session,
        handle: grant.handle,
        key: grant.key.clone(),
        rate_packet_per_s: 1_000_000,
    };
    let mut probe = XdpProbe::open(&target, "the bench asks for it")?;
    // Every slot is due before it can be sent: nothing is waited for.
    let plan = Plan {
        pace: Pace { packets: 1, span_ns: 1 },
        packets: asked.packets,
        lead_in_ns: 2_000_000,
        catch_up_ns: u64::MAX >> 2,
        linger_ns: 20_000_000,
        batch: 1,
    };
    let (mut sent, mut trips) = (vec![0; asked.packets as usize], Vec::new());
    let cpu = asked.cpu;
    let prepare = || pin(Some(&cpu)).map_err(|error| error.to_string());
    let ended = probe.run(&plan, prepare, &|| false, &mut |event| {
        match event {
            Event::Slot { sequence, sent: Some(at), .. } => sent[sequence as usize] = at.as_nanos(),
            Event::Reply(reply) => trips.push(reply.arrived.as_nanos() - sent[reply.sequence as usize]),
            _ => {}
        }
        trips.len() as u64 == asked.packets
    })??;
    if let Some(error) = ended.failed {
        return Err(error.into());
    }
    sent.retain(|at| *at != 0);
    let mut gaps: Vec<u64> = sent.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort_unstable();
    trips.sort_unstable();
    let at = |values: &[u64], share: f64| values.get(((values.len().max(1) - 1) as f64 * share) as usize).copied();
    println!(
        r#"{{"sent": {}, "replies": {}, "packet_ns": {}, "least_rtt_ns": {}, "median_rtt_ns": {}}}"#,
        sent.len(),
        trips.len(),
        at(&gaps, 0.5).unwrap_or(0),
        at(&trips, 0.001).unwrap_or(0),
        at(&trips, 0.5).unwrap_or(0),
    );
    Ok(())
}

/// The bare programs.
struct Bare {
    object: Object,
    maps: Maps,
    shared: MapView,
}

impl Bare {
    fn load() -> Result<Self, Failed> {
        let object = Object::parse("bare.bpf.o", include_bytes!("../bare.bpf.o"))?;
        let maps = object.create_maps()?;
        let shared = maps.get("shared_map").view()?;
        Ok(Self { object, maps, shared })
    }

    fn program(&self, name: &str) -> Result<Program, Failed> {
        Ok(self.object.load(name, &self.maps)?)
    }
}

fn number_of(name: &str) -> Result<u32, Failed> {
    let all = interface::all()?;
    let found = all.iter().find(|interface| interface.name == name).map(|found| found.index);
    found.ok_or_else(|| format!("there is no interface {name}: use one of this namespace").into())
}

/// Sends back what comes in at `name`, until it is ended.
pub(crate) fn bounce(name: &str) -> Result<(), Failed> {
    let bare = Bare::load()?;
    let _link = XdpLink::attach(&bare.program("bounce")?, number_of(name)?)?;
    loop {
        std::thread::sleep(Duration::from_secs(60));
    }
}

/// Sends frames to where `bounce` runs and drops them when they come back; prints ns a frame.
pub(crate) fn floor(name: &str, calls: usize, payload_byte: usize) -> Result<(), Failed> {
    let (bare, number) = (Bare::load()?, number_of(name)?);
    bare.shared.words()[0].store(number.into(), Ordering::Relaxed);
    let _link = XdpLink::attach(&bare.program("sink")?, number)?;
    let send = bare.program("send")?;
    let frame = vec![0_u8; 42 + payload_byte];
    let mut each: Vec<u64> = Vec::new();
    for _ in 0..calls {
        let begun = Instant::now();
        send.run_live(&frame, LiveRun { repeat: FRAMES, batch: 1 })?;
        each.push(begun.elapsed().as_nanos() as u64 / u64::from(FRAMES));
    }
    each.sort_unstable();
    let came = bare.shared.words()[1].load(Ordering::Relaxed);
    println!(r#"{{"sent": {}, "replies": {came}, "packet_ns": {}}}"#, calls as u64 * u64::from(FRAMES), each[0]);
    Ok(())
}
