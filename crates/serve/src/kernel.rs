//! The answering end: `crates/bpf/reflect.c` and what it shares with this process.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use vtare_bpf::layout::reflect::{BUCKETS, BUCKETS_TRIED, THE_DAEMON, UNDECIDED, bucket, host, session as word};
use vtare_link::xdp::{XdpError, secrets};
use vtare_sys::bpf::{MapView, Object, Program, XdpLink, XdpMode};
use vtare_sys::net::{interface, route};
use vtare_units::{Monotonic, Timestamp};
use vtare_wire::session::{Counters, Grant, Offload, OffloadState, Purpose, WireForm};

/// Looks at a lock that a program holds for less than a microsecond.
const LOCK_LOOKS: usize = 1_000_000;

/// Where and how the program runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Attached {
    /// The interface.
    pub interface: String,
    /// Whether it runs in the driver; else in the network stack.
    pub native: bool,
    /// Whether it is a veth. Its other end then must take frames of programs (GRO or a program of its own), or replies
    /// vanish there uncounted.
    pub veth: bool,
    /// The driver's reason, where it does not.
    pub native_refused: Option<String>,
    /// Bytes of memory that the sessions' states take in the kernel.
    pub memory_byte: u64,
}

/// An answering end whose program is loaded and attached.
#[derive(Debug)]
pub(crate) struct XdpReflector {
    sessions: MapView,
    buckets: MapView,
    taken: Vec<bool>,
    memory_byte: u64,
    host: MapView,
    at: Option<(XdpLink, Attached)>,
}

impl XdpReflector {
    /// Loads the program for at most `sessions` sessions and attaches it to `interface`. It answers what comes to
    /// `listen`; to any of this host's addresses (as they are now, at most 16) where that is unspecified.
    ///
    /// # Errors
    /// [`XdpError`], each with the way out.
    pub(crate) fn attach(interface: &str, listen: SocketAddr, sessions: u16) -> Result<Self, XdpError> {
        let all = interface::all()?;
        let number = all.iter().find(|found| found.name == interface).map(|found| found.index).ok_or_else(|| {
            let names: Vec<&str> = all.iter().map(|found| found.name.as_str()).collect();
            XdpError::Unfit(format!("interface is '{interface}': use one of {}", names.join(", ")))
        })?;
        let facts = route::link(number)?;
        let card = facts.address.filter(|address| *address != [0; 6]);
        let card = card.ok_or_else(|| {
            XdpError::Unfit(format!(
                "{interface} is no Ethernet interface: kernel programs answer Ethernet frames only"
            ))
        })?;
        let own = |ip: &IpAddr| match (ip.to_canonical(), listen.ip().to_canonical()) {
            (IpAddr::V4(ip), wanted) if wanted.is_unspecified() || wanted == IpAddr::V4(ip) => Some(ip),
            _ => None,
        };
        let addresses: Vec<Ipv4Addr> = all.iter().flat_map(|found| found.addresses.iter().filter_map(own)).collect();
        if addresses.is_empty() {
            return Err(XdpError::Unfit(format!(
                "{} is no IPv4 address of this host: kernel programs answer IPv4 only",
                listen.ip()
            )));
        }
        let (mut reflector, program) = Self::load(card, listen.port(), &addresses, sessions)?;
        let veth = facts.kind.as_deref() == Some("veth");
        reflector.host.words()[host::REDIRECT_TO].store(if veth { number.into() } else { 0 }, Ordering::Relaxed);
        let link = XdpLink::attach(&program, number)?;
        let attached = Attached {
            interface: interface.to_owned(),
            native: link.mode() == XdpMode::Native,
            veth,
            native_refused: link.native_refused().map(str::to_owned),
            memory_byte: reflector.memory_byte,
        };
        reflector.at = Some((link, attached));
        Ok(reflector)
    }

    /// Loads the program for a card of this hardware address, without attaching it.
    pub(super) fn load(
        card: [u8; 6],
        port: u16,
        addresses: &[Ipv4Addr],
        sessions: u16,
    ) -> Result<(Self, Program), XdpError> {
        let mut object = Object::parse("reflect.bpf.o", vtare_bpf::REFLECT)?;
        object.shape_mut("sessions").most_entries = sessions.into();
        let memory_byte =
            object.shapes().values().map(|shape| u64::from(shape.value_byte) * u64::from(shape.most_entries)).sum();
        let maps = object.create_maps()?;
        let about = maps.get("host_map").view()?;
        let mut address = [0; 8];
        address[..6].copy_from_slice(&card);
        about.words()[host::PORT].store(u64::from(u16::from_ne_bytes(port.to_be_bytes())), Ordering::Relaxed);
        about.words()[host::INTERFACE_ADDRESS].store(u64::from_ne_bytes(address), Ordering::Relaxed);
        for (word, address) in about.words()[host::ADDRESSES..].iter().zip(addresses) {
            word.store(raw(*address), Ordering::Relaxed);
        }
        let program = object.load("reflect", &maps)?;
        let (sessions_view, buckets) = (maps.get("sessions").view()?, maps.get("buckets").view()?);
        Ok((
            Self {
                sessions: sessions_view,
                buckets,
                taken: vec![false; sessions.into()],
                memory_byte,
                host: about,
                at: None,
            },
            program,
        ))
    }

    /// Where and how the program runs; `None` where it is not attached.
    #[must_use]
    pub(crate) fn attached(&self) -> Option<&Attached> {
        self.at.as_ref().map(|(_, attached)| attached)
    }

    fn session(&self, handle: u16) -> Option<&[AtomicU64]> {
        self.taken.get(usize::from(handle)).copied().unwrap_or(false).then(|| self.sessions.entry(handle.into()))
    }

    /// A free place for a session of this name; the program looks in the same ones.
    fn bucket(&self, name: u64, is: impl Fn(&[AtomicU64]) -> bool) -> Option<&[AtomicU64]> {
        let places = (0..BUCKETS_TRIED).map(|step| self.buckets.entry((name as usize + step) % BUCKETS));
        places.into_iter().find(|bucket| is(bucket))
    }
}

/// An address as it lies in a packet.
fn raw(address: Ipv4Addr) -> u64 {
    u32::from_ne_bytes(address.octets()).into()
}

impl Offload for XdpReflector {
    fn open(&mut self, now: Timestamp<Monotonic>, peer: IpAddr, grant: &Grant, burst_packet: u64) {
        let (IpAddr::V4(peer), Purpose::Rtt) = (peer.to_canonical(), grant.open.purpose) else { return };
        let handle = usize::from(grant.handle);
        let Some(bucket) = self.bucket(grant.session.0, |bucket| bucket[bucket::HANDLE].load(Ordering::Relaxed) == 0)
        else {
            return;
        };
        if handle >= self.taken.len() {
            return;
        }
        let entry = self.sessions.entry(handle);
        let set = |at: usize, value: u64| entry[at].store(value, Ordering::Relaxed);
        for word in entry {
            word.store(0, Ordering::Relaxed);
        }
        let secrets = secrets(&grant.key, grant.session);
        for (index, value) in secrets.into_iter().enumerate() {
            set(word::SECRETS + index, value);
        }
        let open = &grant.open;
        // In 1/1024 ns, rounded down: the rate is kept to one part in a million.
        let increment = 1_024_000_000_000_u64.checked_div(open.rate_packet_per_s).unwrap_or(0);
        set(word::HANDLE, grant.handle.into());
        set(word::PEER, raw(peer));
        set(word::FULL, u64::from(open.form == WireForm::Full));
        set(word::MOST_BYTE, open.size_byte.into());
        set(word::MOST_PACKETS, open.packets);
        set(word::DURATION_NS, open.duration_ns);
        set(word::IDLE_NS, grant.idle_ns);
        set(word::BASE_NS, now.as_nanos());
        set(word::INCREMENT, increment);
        set(word::TOLERANCE, increment.saturating_mul(burst_packet.saturating_sub(1)));
        set(word::JUDGE, UNDECIDED as u64);
        set(word::HEARD_NS, now.as_nanos());
        bucket[bucket::SESSION_RAW].store(secrets[2], Ordering::Relaxed);
        bucket[bucket::HANDLE].store(u64::from(grant.handle) + 1, Ordering::Release);
        entry[word::OPEN].store(1, Ordering::Release);
        self.taken[handle] = true;
    }

    fn state(&self, handle: u16) -> Option<OffloadState> {
        let entry = self.session(handle)?;
        let at = |at: usize| entry[at].load(Ordering::Acquire);
        let time = |ns: u64| (ns != 0).then(|| Timestamp::from_nanos(ns));
        let counters = Counters {
            accepted: at(word::ACCEPTED),
            replied: at(word::REPLIED),
            duplicate: at(word::DUPLICATE),
            too_old: at(word::TOO_OLD),
            // What no CPU got to judge in time counts as too much at once.
            over_rate: at(word::OVER_RATE) + at(word::CONTENDED),
            over_limit: at(word::OVER_LIMIT),
            oversized: at(word::OVERSIZED),
            forged: at(word::FORGED),
            accepted_byte: at(word::ACCEPTED_BYTE),
            replied_byte: at(word::REPLIED_BYTE),
            unsent: 0,
            // No socket is asked, and no trains are sent back from here.
            socket_drops: None,
            reversed: 0,
            reverse_unsent: 0,
            reverse_byte: 0,
        };
        Some(OffloadState { counters, started: time(at(word::STARTED_NS)), last_received: time(at(word::HEARD_NS)) })
    }

    fn note_control_message(&self, handle: u16, now: Timestamp<Monotonic>) {
        if let Some(entry) = self.session(handle) {
            entry[word::HEARD_NS].fetch_max(now.as_nanos(), Ordering::Relaxed);
        }
    }

    fn claim_for_userspace(&self, handle: u16) -> bool {
        let Some(entry) = self.session(handle) else { return true };
        let judge = &entry[word::JUDGE];
        match judge.compare_exchange(UNDECIDED as u64, THE_DAEMON as u64, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(found) => found == THE_DAEMON as u64,
        }
    }

    fn close(&mut self, handle: u16) -> Option<Counters> {
        let entry = self.session(handle)?;
        entry[word::OPEN].store(0, Ordering::SeqCst);
        // A program that saw it open holds the lock, or will see it closed.
        for _ in 0..LOCK_LOOKS {
            if entry[word::LOCK].load(Ordering::SeqCst) == 0 {
                break;
            }
            std::hint::spin_loop();
        }
        let last = self.state(handle).map(|there| there.counters);
        let name_raw = entry[word::SECRETS + 2].load(Ordering::Relaxed);
        let name = u64::from_be_bytes(name_raw.to_ne_bytes());
        let own = |bucket: &[AtomicU64]| {
            bucket[bucket::SESSION_RAW].load(Ordering::Relaxed) == name_raw
                && bucket[bucket::HANDLE].load(Ordering::Relaxed) == u64::from(handle) + 1
        };
        if let Some(bucket) = self.bucket(name, own) {
            bucket[bucket::HANDLE].store(0, Ordering::Release);
        }
        // Key and window shall not outlive the session.
        for word in &entry[word::SECRETS..word::SECRETS + 3] {
            word.store(0, Ordering::Relaxed);
        }
        self.taken[usize::from(handle)] = false;
        last
    }
}
