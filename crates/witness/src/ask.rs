//! Questions to witnesses over UDP.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::time::Duration;

use vtare_clock::{Clock, Confirmed, Patience, Round, Unconfirmed, WitnessAnswer, confirm};
use vtare_control::PresharedKey;
use vtare_sys::{kernel_file, random};
use vtare_units::{Span, Timestamp};
use vtare_wire::DEFAULT_PORT;
use vtare_wire::heartbeat::{self, HEARTBEAT_BYTE, HeartbeatKey, Nonce, Statement};

/// Most witnesses.
const MOST: usize = 16;
/// How long a call asks at most.
const CALL_LIMIT: Span = Span::from_secs(1);
/// A witness that has not answered is asked again after this time.
const ASK_AGAIN: Span = Span::from_millis(100);
/// The longest wait for one datagram.
const WAIT: Duration = Duration::from_millis(5);
/// Status of an interval of which the witness can vouch for its ends, and of none at all.
const FREE_RUNNING: u8 = 1;
const DISRUPTED: u8 = 2;

/// Why witnesses cannot be asked, or confirm nothing.
#[derive(Debug, thiserror::Error)]
pub enum WitnessError {
    /// The list is empty or too long.
    #[error(
        "{found} witnesses are named: use 1 to {MOST}, as HOST:PORT,HOST:PORT,HOST:PORT; three on different hosts \
        tolerate one that is wrong"
    )]
    Count {
        /// How many there are.
        found: usize,
    },
    /// A name has no address.
    #[error("the witness '{name}' has no address ({reason}): use HOST or HOST:PORT of a `vtare serve`")]
    Address {
        /// The name.
        name: String,
        /// What the system answers.
        reason: String,
    },
    /// Witnesses on other hosts need a key.
    #[error(
        "the witness '{name}' is another host, and there is no key: use the key file of its `vtare serve`, or \
        VTARE_KEY"
    )]
    NeedsKey {
        /// The name.
        name: String,
    },
    /// The system refuses a socket or random bytes.
    #[error("cannot ask witnesses: {0}")]
    System(std::io::Error),
    /// The answers confirm nothing.
    #[error("UTC is not confirmed: {0}")]
    Unconfirmed(#[from] Unconfirmed),
}

/// What a call confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirmation {
    /// The interval and who confirms it.
    pub confirmed: Confirmed,
    /// How long the call took, on this machine's clock.
    pub round_trip: Span,
    /// The generation of this machine's clock at the return.
    pub generation: u64,
}

/// Witnesses that this machine asks.
#[derive(Clone, Debug)]
pub struct Witnesses {
    /// As the socket takes them: those of IPv4 mapped to IPv6 where not all are of IPv4.
    addresses: Vec<SocketAddr>,
    key: HeartbeatKey,
    own_host: u64,
}

impl Witnesses {
    /// The witnesses of a list such as `10.0.0.1,10.0.0.2:8462,clock3`, who hold this key. Looks names up.
    ///
    /// # Errors
    /// [`WitnessError::Count`], [`WitnessError::Address`], [`WitnessError::NeedsKey`].
    ///
    /// ```
    /// use vtare_witness::Witnesses;
    /// assert!(Witnesses::new("127.0.0.1:8462,127.0.0.2", None).is_ok());
    /// assert!(Witnesses::new("192.0.2.1", None).is_err(), "without a key");
    /// ```
    pub fn new(list: &str, key: Option<&PresharedKey>) -> Result<Self, WitnessError> {
        let names: Vec<&str> = list.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
        if !(1..=MOST).contains(&names.len()) {
            return Err(WitnessError::Count { found: names.len() });
        }
        let addresses = names.iter().map(|name| address_of(name)).collect::<Result<Vec<_>, _>>()?;
        let far = names.iter().zip(&addresses).find(|(_, address)| !address.ip().to_canonical().is_loopback());
        if let (None, Some((name, _))) = (key, far) {
            return Err(WitnessError::NeedsKey { name: (*name).to_owned() });
        }
        let all_ipv4 = addresses.iter().all(|address| address.ip().to_canonical().is_ipv4());
        let addresses = addresses.into_iter().map(|to| match to.ip().to_canonical() {
            IpAddr::V4(ip) if all_ipv4 => (ip, to.port()).into(),
            IpAddr::V4(ip) => (ip.to_ipv6_mapped(), to.port()).into(),
            IpAddr::V6(_) => to,
        });
        let addresses = addresses.collect();
        let key = PresharedKey::for_heartbeats(key);
        let own_host = kernel_file::boot_id().map_or(0, |boot| key.host(boot.as_bytes()));
        Ok(Self { addresses, key, own_host })
    }

    /// This machine, as its witnesses are named.
    #[must_use]
    pub const fn own_host(&self) -> u64 {
        self.own_host
    }

    /// A socket for questions to all of them.
    ///
    /// # Errors
    /// [`WitnessError::System`].
    pub fn socket(&self) -> Result<UdpSocket, WitnessError> {
        let all_ipv4 = self.addresses.iter().all(SocketAddr::is_ipv4);
        let any: SocketAddr =
            if all_ipv4 { (Ipv4Addr::UNSPECIFIED, 0).into() } else { (Ipv6Addr::UNSPECIFIED, 0).into() };
        let socket = UdpSocket::bind(any).map_err(WitnessError::System)?;
        socket.set_read_timeout(Some(WAIT)).map_err(WitnessError::System)?;
        Ok(socket)
    }

    /// Asks them until they confirm UTC, for a second at most. One round trip, whatever happened before.
    ///
    /// # Errors
    /// [`WitnessError::System`], [`WitnessError::Unconfirmed`].
    pub fn confirm(&self, clock: &Clock) -> Result<Confirmation, WitnessError> {
        let socket = self.socket()?;
        let begun = clock.now_ordered();
        loop {
            let left = CALL_LIMIT - (clock.now_ordered() - begun).abs();
            let round = self.ask(clock, &socket, left)?;
            let answers: Vec<_> = round.answers.iter().flatten().copied().collect();
            match confirm(&answers, self.addresses.len(), self.own_host, round.ended.at) {
                Ok(confirmed) => {
                    let round_trip = round.ended.at - round.begun;
                    return Ok(Confirmation { confirmed, round_trip, generation: round.ended.generation });
                }
                // Stopped in the middle of it, perhaps: the next round is whole.
                Err(Unconfirmed::Contradiction { .. }) if (round.ended.at - begun).abs() < CALL_LIMIT => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// One round of questions over such a socket, for `limit` at most.
    ///
    /// # Errors
    /// [`WitnessError::System`].
    pub fn ask(&self, clock: &Clock, socket: &UdpSocket, limit: Span) -> Result<Round, WitnessError> {
        let begun = clock.now_ordered();
        let mut answers: Vec<Option<WitnessAnswer>> = vec![None; self.addresses.len()];
        let mut asked: Vec<(Nonce, usize, Timestamp<_>)> = Vec::new();
        let (mut patience, mut ask_again) = (Patience::default(), Span::ZERO);
        loop {
            let passed = clock.now_ordered() - begun;
            let come: Vec<_> = answers.iter().flatten().copied().collect();
            if passed >= limit
                || passed.is_negative()
                || patience.is_over(&come, self.addresses.len(), self.own_host, passed)
            {
                return Ok(Round { begun, ended: clock.now_checked(), answers });
            }
            if passed >= ask_again {
                ask_again = passed + ASK_AGAIN;
                let mut nonces = [Nonce::default(); MOST];
                let nonces = &mut nonces[..answers.len()];
                renew(nonces).map_err(WitnessError::System)?;
                for (place, nonce) in nonces.iter().enumerate() {
                    if answers[place].is_none() {
                        let request = heartbeat::request(&self.key, nonce);
                        asked.push((*nonce, place, clock.now_ordered()));
                        // A witness that cannot be reached is one that does not answer.
                        let _ = socket.send_to(&request, self.addresses[place]);
                    }
                }
            }
            let mut datagram = [0; HEARTBEAT_BYTE + 1];
            // No reply yet, or a refusal that the kernel reports: the limit ends it.
            let Ok(length) = socket.recv(&mut datagram) else { continue };
            let received = clock.now_ordered();
            let Ok((nonce, stated)) = heartbeat::read_reply(&self.key, &datagram[..length]) else { continue };
            // A nonce of this call alone, and once: others are copies, or late.
            let Some(&(_, place, sent)) = asked.iter().find(|one| one.0 == nonce) else { continue };
            if answers[place].is_none() {
                answers[place] = Some(answer(&stated, sent, received));
            }
        }
    }
}

fn answer(
    stated: &Statement,
    sent: Timestamp<vtare_units::Monotonic>,
    received: Timestamp<vtare_units::Monotonic>,
) -> WitnessAnswer {
    let bounded = stated.status != DISRUPTED && stated.earliest_ns <= stated.latest_ns && stated.latest_ns != u64::MAX;
    let ends = (Timestamp::from_nanos(stated.earliest_ns), Timestamp::from_nanos(stated.latest_ns));
    WitnessAnswer {
        sent,
        received,
        utc: bounded.then_some(ends),
        sees_stops: stated.status <= FREE_RUNNING,
        generation: stated.generation,
        stamp: Timestamp::from_nanos(stated.stamp_ns),
        host: stated.host,
    }
}

/// Random bits, and those of the CPU's own source: a guest that is restored from a snapshot repeats the kernel's.
fn renew(nonces: &mut [Nonce]) -> std::io::Result<()> {
    getrandom::fill(nonces.as_flattened_mut()).map_err(|error| std::io::Error::other(error.to_string()))?;
    for half in nonces.as_flattened_mut().chunks_exact_mut(8) {
        let fresh = random::of_cpu().unwrap_or(0).to_be_bytes();
        half.iter_mut().zip(fresh).for_each(|(byte, fresh)| *byte ^= fresh);
    }
    Ok(())
}

fn address_of(name: &str) -> Result<SocketAddr, WitnessError> {
    let fail = |reason: String| WitnessError::Address { name: name.to_owned(), reason };
    if let Ok(address) = name.parse() {
        return Ok(address);
    }
    let found = match name.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') => {
            let port = port.parse().map_err(|_| fail(format!("'{port}' is no port")))?;
            (host, port).to_socket_addrs()
        }
        _ => (name.trim_matches(['[', ']']), DEFAULT_PORT).to_socket_addrs(),
    };
    found.map_err(|error| fail(error.to_string()))?.next().ok_or_else(|| fail("no such host".to_owned()))
}

#[cfg(test)]
#[path = "ask_tests.rs"]
mod tests;
