//! The stages of a measurement; how each plans its train and reads it stands in `burst.rs`, `police.rs`, `primed.rs`.

/// What the train under way is for; `Abacus::transition` gives the next one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Stage {
    Burst(Burst),
    Police(Police),
    Primed(Primed),
}

/// A train back to back; `MORE` times as many packets as before where there was no queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Burst {
    pub(super) packets: u32,
    /// What those before took out of a bucket.
    pub(super) sent_before_bit: f64,
    /// Rate at which the one before came, bit/s.
    pub(super) came: f64,
}

impl Burst {
    /// The first one.
    pub(super) const fn first(packets: u32) -> Stage {
        Stage::Burst(Self { packets, sent_before_bit: 0.0, came: 0.0 })
    }
}

/// A train at this rate, bit/s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Police {
    pub(super) rate: f64,
}

/// Short until one does not empty the queue, then long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Primed {
    pub(super) measures: bool,
}
