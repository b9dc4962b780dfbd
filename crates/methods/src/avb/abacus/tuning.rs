//! numbers (to be documented)
pub(super) const SIDES: f64 = 2.0;
pub(super) const LEAST_ERROR: f64 = 0.003;
pub(super) const DRAINED_SHARE: f64 = 0.02;
pub(super) const PAUSE_STEPS: f64 = 12.0;
pub(super) const OTHERS_EVEN: f64 = 0.3;
pub(super) const OTHERS_POISSON: f64 = 2.0;
pub(super) const OTHERS_BURSTY: f64 = 5.0;
pub(super) const FEW_BURSTS: f64 = 3.0;
pub(super) const JITTER: f64 = 3.0;
pub(super) const EMPTY_SERVICES: f64 = 0.3;
pub(super) const IDLE_EMPTY: f64 = 0.8;
pub(super) const IDLE_FOUND: f64 = 0.2;
pub(super) const PARTS: usize = 10;
pub(super) const LEAST_POINTS: usize = 8;
pub(super) const HELD_UNSEEN: f64 = 0.1;
pub(super) const FAR: f64 = 0.1;
pub(super) const FAR_ERROR: f64 = 0.2;
pub(super) const MOVING: f64 = 1.0;
pub(super) const SETTLE: f64 = 1.2;
pub(super) const LEAST_KEPT: f64 = 0.35;
pub(super) const LEAST_CAPACITY_ERROR: f64 = 0.03;
pub(super) const LEAST_SHARE: f64 = 0.03;
pub(super) const ROOM: f64 = 1.5;
pub(super) const UNKNOWN: f64 = 2e10;
pub(super) const MARGIN: f64 = 0.02;
pub(super) const APPROACH_MARGIN: f64 = 0.1;
pub(super) const CALM_MARGIN: f64 = 0.03;
pub(super) const CALM_SHARE: f64 = 0.97;
pub(super) const PRIME: f64 = 2.5;
pub(super) const PRIME_MORE: f64 = 1.4;
pub(super) const PRIME_MOST: f64 = 10.0;
pub(super) const MOST_QUEUE_S: f64 = 0.1;
pub(super) const FILL_PACKETS: f64 = 4.0;
pub(super) const UPWARD: f64 = 1.5;
pub(super) const HAZY: f64 = 0.3;
pub(super) const RISE: f64 = 1.4;
pub(super) const OFTEN: f64 = 0.1;
pub(super) const BURSTY: f64 = 4.0;
pub(super) const ASTRAY: f64 = 0.15;
pub(super) const LONGER_DRAINED: f64 = 3.0;
pub(super) const LONGER_FAR: f64 = 8.0;
pub(super) const REST_SHARE: f64 = 0.3;
pub(super) const LAST_SHARE: f64 = 0.85;
pub(super) const AGREE: f64 = 3.0;
pub(super) const ABSURD: f64 = 1.2;
pub(super) const OUTGROWN: f64 = 1.15;
pub(super) const BOUND_ERROR: f64 = 0.2;
pub(super) const ELIGIBLE_POINTS: usize = 24;
pub(super) const MOST_TRAINS: u32 = 1000;
pub(super) const SMALL_BELOW: f64 = 5e8;
pub(super) const SMALL: u32 = 1500;
pub(super) const BURST_STAMPS: usize = 8;
pub(super) const LONG: f64 = 0.7;
pub(super) const SEARCH_WIDER: f64 = 3.0;
pub(super) const LOST_AT_LEAST: usize = 4;
pub(super) const LOST_HIGH: f64 = 0.85;
pub(super) const LOST_NEAR: f64 = 0.2;
pub(super) const HELD_WHOLE: f64 = 0.7;
pub(super) const HELD_WHOLE_NS: f64 = 300_000.0;
pub(super) const HELD_RATE: f64 = 0.9;
pub(super) const OWN_QUEUE: f64 = 0.5;
pub(super) const FELL_SERVICES: f64 = 30.0;
pub(super) const FELL_NS: f64 = 300_000.0;
pub(super) const MOST_RESTARTS: u32 = 3;
pub(super) const SAME_LINK: f64 = 0.1;
pub(super) const SAME_LINK_BELOW: f64 = 5e8;
pub(super) const POLICE_S: f64 = 0.02;
pub(super) const POLICE_PACKETS: (u32, u32) = (100, 400);
pub(super) const FIRST_CALLS: u32 = 12;
pub(super) const FIRST_CALL_BYTE: u32 = 36_000;
pub(super) const MOST_HELD_NS: f64 = 300_000.0;
pub(super) const BLUR: f64 = 1.0;
pub(super) const TIME_SHARE: f64 = 0.85;
pub(super) const CALM_DISPERSION: f64 = 0.05;
pub(super) const CALM_VALUE: f64 = 0.95;
pub(super) const OUTSIDE: f64 = 0.025;
pub(super) const CALM_DOUBLINGS: usize = 6;
pub(super) const MORE: u64 = 8;
pub(super) const NOT_EXCLUDED: f64 = 0.4;
pub(super) const CALM_EXCEEDED: f64 = 1.01;
pub(super) const SEVERAL_WIDE: f64 = 0.2;
/// Neighbours closer than this in the mode count as the mode's.
pub(super) const MODE_NEAR: f64 = 0.15;
/// A place is another one below this share of the first.
pub(super) const MODE_CLEAR: f64 = 0.75;
/// More packets a stamp than this hide the gaps between packets; the capacity is then known so well, as a share.
pub(super) const COARSE: f64 = 2.5;
pub(super) const COARSE_ERROR: f64 = 0.15;
/// Packets that were sent back to back and overloaded a link leave it at half its capacity at least, whatever crosses;
/// those of a slower link before it at somewhat less. Stamps closer than this multiple of that rate are of packets that
/// were handed over together: by a token bucket's timer, or by a receiver that looks for packets now and then.
pub(super) const CLUMPED: f64 = 3.5;
/// Different stamps that show a rate of arrival.
pub(super) const RATE_STAMPS: usize = 8;
/// Where more than this share of the packets were handed over with others, the gaps are those of the hand-over. The
/// link is then known from the time of a whole train, and so well, as a share.
pub(super) const CLUMPED_SHARE: f64 = 0.15;
pub(super) const CLUMPED_ERROR: f64 = 0.2;
/// A stretch of a train shows the link's rate, whatever its packets' gaps are, if it has this number of packets, came
/// at this number of times, and was sent in less than this share of the time in which it came: then hardly anything
/// could come between. The error as a share, of one, and of more than one.
pub(super) const STRETCH_PACKETS: f64 = 128.0;
pub(super) const STRETCH_POINTS: usize = 8;
pub(super) const STRETCH_SENT: f64 = 0.25;
pub(super) const STRETCH_ERROR: f64 = 0.08;
pub(super) const STRETCHES_ERROR: f64 = 0.04;
/// The error, as a share, of a capacity from gaps of which no two are alike.
pub(super) const SCATTERED_ERROR: f64 = 0.3;
/// Share of all neighbours that another place must have.
pub(super) const MODE_LEAST_PART: f64 = 0.06;
/// Packets closer than this share of what the tight link takes for them waited behind it. Less than 1, since the link
/// is not known well.
pub(super) const HELD_SHARE: f64 = 0.6;
/// Ratios of the tight link's capacity to the narrow one's: 1 to this.
pub(super) const RATIO_MOST: f64 = 16.0;
/// Several links that are overloaded together act as one with less capacity than any of them: down to this ratio.
pub(super) const RATIO_LEAST: f64 = 0.05;
/// Number of ratios looked at, on a logarithmic scale.
pub(super) const RATIO_CELLS: usize = 61;
/// At a rate far above the value other links are overloaded as well: this share of what a slope corrects may be theirs.
pub(super) const RATIO_FAR: f64 = 0.15;
/// A ratio this close to 1 is that of the narrow link itself.
pub(super) const RATIO_NEAR: f64 = 0.12;
/// The link is known so well, as a share, when a value above it is held against it.
pub(super) const RATIO_OUTSIDE: f64 = 0.03;
/// Probability, before any train, that the tight link is the narrow one.
pub(super) const RATIO_SAME: f64 = 0.4;
/// Ratios are the rarer the larger they are: with this power.
pub(super) const RATIO_STEEP: f64 = 2.0;
