use std::fmt;

/// How the load is spread over guests: `loaded` of them share all of it but the share `slight`, which the others share.
//= Batalla et al. 2018, J Supercomput 74:4227, equations 2 to 5
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distribution {
    guests: u32,
    loaded: u32,
    /// `slight` in steps of 1/10,000.
    steps: u32,
}

/// A distribution that cannot be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LoadError {
    /// No guests.
    NoGuests,
    /// None loaded, or more than there are.
    Loaded {
        /// Guests to load strongly.
        loaded: u32,
        /// All guests.
        guests: u32,
    },
    /// Not within 0..1, or finer than 1/10,000.
    Share {
        /// The share.
        slight: f64,
    },
    /// The slightly loaded guests would have more than their even part.
    NotSlight {
        /// The share.
        slight: f64,
        /// From here on it is no slight load.
        below: f64,
    },
    /// The table of slots would be too large.
    TooManySlots {
        /// Its slots.
        slots: u64,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoGuests => write!(f, "guests is 0: use 1 or more"),
            Self::Loaded { loaded, guests } => {
                write!(f, "loaded is {loaded}: use 1 to {guests}, the number of guests")
            }
            Self::Share { slight } => {
                write!(f, "slight share is {slight}: use a share from 0 to below 1, in steps of 0.0001 (0.01 is usual)")
            }
            Self::NotSlight { slight, below } => write!(
                f,
                "slight share is {slight}: use less than {below:.4}, the even part of the guests that are loaded \
                 slightly: from there on they have as much as the others or more"
            ),
            Self::TooManySlots { slots } => write!(
                f,
                "this distribution has {slots} slots, more than {SLOTS_MOST}: choose a slight share of \
                 fewer digits, as 0.01, or fewer guests"
            ),
        }
    }
}

impl std::error::Error for LoadError {}

/// Slots of a [`SlotTable`] at most.
pub const SLOTS_MOST: u64 = 1 << 20;
const STEPS: u32 = 10_000;

impl Distribution {
    /// Spreads the load over `guests`, `loaded` of them strongly; the others share `slight` of it. With all of them
    /// loaded, `slight` has no part.
    ///
    /// ```
    /// use vtare_methods::throughput::Distribution;
    /// let six_of_twelve = Distribution::new(12, 6, 0.01)?;
    /// assert_eq!(format!("{:.4}", six_of_twelve.jain()), "0.5101");
    /// assert!(Distribution::new(12, 13, 0.01).unwrap_err().to_string().contains("use 1 to 12"));
    /// # Ok::<(), vtare_methods::throughput::LoadError>(())
    /// ```
    ///
    /// # Errors
    /// [`LoadError`], with the value found and what is wanted.
    pub fn new(guests: u32, loaded: u32, slight: f64) -> Result<Self, LoadError> {
        if guests == 0 {
            return Err(LoadError::NoGuests);
        }
        if loaded == 0 || loaded > guests {
            return Err(LoadError::Loaded { loaded, guests });
        }
        let steps = slight * f64::from(STEPS);
        if !(0.0..f64::from(STEPS)).contains(&steps) || (steps - steps.round()).abs() > 1e-6 {
            return Err(LoadError::Share { slight });
        }
        let below = f64::from(guests - loaded) / f64::from(guests);
        if loaded < guests && slight >= below {
            return Err(LoadError::NotSlight { slight, below });
        }
        Ok(Self { guests, loaded, steps: steps.round() as u32 })
    }

    /// Guests.
    #[must_use]
    pub const fn guests(&self) -> u32 {
        self.guests
    }

    /// Guests that are loaded strongly: the first ones.
    #[must_use]
    pub const fn loaded(&self) -> u32 {
        self.loaded
    }

    /// The share of the load that the others have together; 0 where there are none.
    #[must_use]
    pub fn slight(&self) -> f64 {
        if self.loaded == self.guests { 0.0 } else { f64::from(self.steps) / f64::from(STEPS) }
    }

    /// Each guest's share of the load; their sum is 1.
    #[must_use]
    pub fn shares(&self) -> Vec<f64> {
        let slight = self.slight();
        let strong = (1.0 - slight) / f64::from(self.loaded);
        let weak = slight / f64::from((self.guests - self.loaded).max(1));
        (0..self.guests).map(|guest| if guest < self.loaded { strong } else { weak }).collect()
    }

    /// Jain's index of these shares, in closed form: what loads achieved are compared with.
    #[must_use]
    pub fn jain(&self) -> f64 {
        let (n, k, q) = (f64::from(self.guests), f64::from(self.loaded), self.slight());
        let weak = if self.loaded == self.guests { 0.0 } else { q * q / (n - k) };
        1.0 / (n * ((1.0 - q) * (1.0 - q) / k + weak))
    }

    /// Which guest each frame goes to.
    ///
    /// # Errors
    /// [`LoadError::TooManySlots`].
    pub fn slots(&self) -> Result<SlotTable, LoadError> {
        let (loaded, others) = (u64::from(self.loaded), u64::from(self.guests - self.loaded));
        let counts: Vec<u64> = if others == 0 {
            vec![1; self.guests as usize]
        } else {
            let (strong, weak) = (u64::from(STEPS - self.steps) * others, u64::from(self.steps) * loaded);
            let common = gcd(strong, weak);
            (0..loaded).map(|_| strong / common).chain((0..others).map(|_| weak / common)).collect()
        };
        SlotTable::new(&counts)
    }
}

fn gcd(one: u64, other: u64) -> u64 {
    if other == 0 { one.max(1) } else { gcd(other, one % other) }
}

/// The guests of frames in turn: each has its share of every stretch of the table, to one frame. It is gone through
/// again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotTable {
    guests: Vec<u16>,
}

impl SlotTable {
    /// Interleaves `counts[guest]` slots of each guest evenly.
    fn new(counts: &[u64]) -> Result<Self, LoadError> {
        let slots: u64 = counts.iter().sum();
        if slots > SLOTS_MOST || counts.len() > usize::from(u16::MAX) {
            return Err(LoadError::TooManySlots { slots });
        }
        // Slot i of a guest with count c lies in the middle of the i-th of c equal stretches; ties go by guest.
        let mut places: Vec<(u64, u16)> = Vec::with_capacity(slots as usize);
        for (guest, &count) in counts.iter().enumerate() {
            places.extend((0..count).map(|index| (((2 * index + 1) << 32) / count, guest as u16)));
        }
        places.sort_unstable();
        Ok(Self { guests: places.into_iter().map(|(_, guest)| guest).collect() })
    }

    /// The guest of each slot, from 0.
    #[must_use]
    pub fn guests(&self) -> &[u16] {
        &self.guests
    }
}

/// Jain's fairness index of loads: 1 where all are alike, 1/n where one has it all; `None` without any load.
//= Jain, Chiu, Hawe 1984, DEC-TR-301
#[must_use]
pub fn jain(loads: &[f64]) -> Option<f64> {
    let sum: f64 = loads.iter().sum();
    let squares: f64 = loads.iter().map(|load| load * load).sum();
    (squares > 0.0).then(|| sum * sum / (loads.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// J(k) for 12 guests and 1 %, from the published equations in exact fractions.
    const PUBLISHED: [f64; 12] = [
        0.085024548906,
        0.170047205104,
        0.255067337777,
        0.340084000748,
        0.425095707262,
        0.510099979596,
        0.595092358334,
        0.680063926009,
        0.764993880049,
        0.849819838194,
        0.934230194320,
        1.0,
    ];

    #[test]
    fn jains_index_is_that_of_the_published_equations() {
        for (index, published) in PUBLISHED.into_iter().enumerate() {
            let distribution = Distribution::new(12, index as u32 + 1, 0.01).expect("good");
            assert!((distribution.jain() - published).abs() < 1e-11, "k = {}", index + 1);
            let achieved = jain(&distribution.shares()).expect("there is a load");
            assert!((achieved - published).abs() < 1e-11, "k = {}", index + 1);
        }
    }

    #[test]
    fn a_load_that_is_not_slight_is_refused_with_its_limit() {
        assert!(Distribution::new(12, 9, 0.2499).is_ok());
        let error = Distribution::new(12, 9, 0.25).expect_err("the even part").to_string();
        assert!(error.contains("is 0.25") && error.contains("less than 0.2500"), "{error}");
        for (guests, loaded, slight, word) in
            [(0, 1, 0.01, "guests"), (12, 0, 0.01, "use 1 to 12"), (12, 13, 0.01, "is 13"), (12, 6, -0.1, "slight")]
        {
            let error = Distribution::new(guests, loaded, slight).expect_err("cannot be").to_string();
            assert!(error.contains(word), "{error}");
        }
        for slight in [1.0, f64::NAN, 0.00005] {
            assert!(matches!(Distribution::new(12, 6, slight), Err(LoadError::Share { .. })), "{slight}");
        }
        // Where all are loaded nobody is left for it.
        assert_eq!(Distribution::new(12, 12, 0.5).expect("no part").jain(), 1.0);
    }

    #[test]
    fn a_table_too_large_is_refused() {
        let error = Distribution::new(400, 201, 0.0003).and_then(|it| it.slots()).expect_err("millions of slots");
        assert!(error.to_string().contains("fewer digits"), "{error}");
    }

    proptest! {
        #[test]
        fn slots_give_each_guest_its_share_exactly_and_every_stretch_nearly(
            guests in 1_u32..40, loaded_part in 0.0..1.0_f64, per_mille in 0_u32..30,
            from in 0_usize..5_000, length in 1_usize..2_000,
        ) {
            let loaded = ((f64::from(guests) * loaded_part) as u32 + 1).min(guests);
            let share = f64::from(per_mille) / 1000.0;
            let Ok(distribution) = Distribution::new(guests, loaded, share) else { return Ok(()) };
            let Ok(table) = distribution.slots() else { return Ok(()) };
            let shares = distribution.shares();
            let slots = table.guests().len() as f64;
            let mut whole = vec![0.0; guests as usize];
            table.guests().iter().for_each(|guest| whole[usize::from(*guest)] += 1.0);
            for (count, share) in whole.iter().zip(&shares) {
                prop_assert!((count - share * slots).abs() < 1e-6 * slots.max(1.0), "{count} of {slots} for {share}");
            }
            let mut part = vec![0.0; guests as usize];
            let slots = table.guests();
            (from..from + length).for_each(|slot| part[usize::from(slots[slot % slots.len()])] += 1.0);
            for (count, share) in part.iter().zip(&shares) {
                let most = 1.0 + f64::from(guests) * share.max(0.02);
                prop_assert!((count - share * length as f64).abs() <= most, "{count} of {length} for {share}");
            }
        }

        #[test]
        fn jain_lies_between_one_guest_and_all(loads in proptest::collection::vec(0.0..1e6_f64, 1..50)) {
            let Some(index) = jain(&loads) else { return Ok(()) };
            prop_assert!(index <= 1.0 + 1e-9 && index >= 1.0 / loads.len() as f64 - 1e-9);
        }
    }
}
