//! The instruments that there are.

use serde_json::Value;

use crate::instrument::Instrument;
use crate::{output, parameters};

/// The instruments that run.json can name: the one list of them.
macro_rules! instruments {
    ($do:ident) => {
        $do!(
            $crate::timer::Timer,
            $crate::sleep::Sleep,
            $crate::counter::Counter,
            $crate::noise::Noise,
            $crate::rtt::Rtt,
            $crate::avb::Avb,
            $crate::path::Path,
            $crate::throughput::Throughput,
            $crate::capture::Capture
        )
    };
}

pub(crate) use instruments;

/// What the schemas need to know of one instrument.
pub(crate) struct Described {
    pub(crate) name: &'static str,
    pub(crate) parameters: Value,
    pub(crate) columns: Value,
}

impl Described {
    /// Describes instrument `I`.
    fn of<I: Instrument>() -> Self {
        let parameters = parameters::schema_of::<I::Parameters>();
        Self { name: I::NAME, parameters, columns: output::to_json(&I::COLUMNS) }
    }
}

/// Each instrument as the schemas describe it.
pub(crate) fn described() -> Vec<Described> {
    macro_rules! describe {
        ($($instrument:ty),*) => { vec![$(Described::of::<$instrument>()),*] };
    }
    instruments!(describe)
}
