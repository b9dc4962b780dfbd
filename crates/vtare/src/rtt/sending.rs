//! What the sending thread gives back, whatever engine sends.

use vtare_probe::link::{Facts, LocalDrops};

use super::peer::PeerLink;
use crate::instrument::Note;

/// From the call to the first packet: time to warm up.
pub(super) const LEAD_IN_NS: u64 = 10_000_000;
/// What the sending thread gives back.
pub(super) struct SendingEnded<'c> {
    pub(super) links: Vec<PeerLink<'c>>,
    pub(super) foreign: Vec<u64>,
    /// The last two replies of each STAMP reflector; empty for others.
    pub(super) last_replies: Vec<[Vec<u8>; 2]>,
    /// The least and the longest time from hand-over to launch, ns.
    pub(super) handed_ahead_ns: Option<(i64, i64)>,
    pub(super) notes: Vec<Note>,
    pub(super) failed: Option<String>,
    pub(super) stopped: bool,
    pub(super) elapsed_ns: u64,
    pub(super) cpu_fraction: Option<f64>,
    pub(super) involuntary_switches: u64,
    /// What programs in the kernel got, and what was lost there.
    pub(super) in_kernel: Option<(Facts, LocalDrops)>,
}
