use serde::{Deserialize, Serialize};

use super::abing::{Abing, AbingSettings};
use super::adr::{Adr, AdrSettings};
use super::assolo::{AssoloSettings, assolo};
use super::classic::{Classic, Rules};
use super::igi::{Formula, Igi, IgiSettings};
use super::kite::{Kite, KiteSettings};
use super::kite2::{Kite2, Kite2Settings};
use super::pathchirp::{PathchirpSettings, pathchirp};
use super::pathload::{Pathload, PathloadSettings};
use super::pathrate::{Pathrate, PathrateSettings};
use super::settings_error::SettingsError;
use super::spruce::{Spruce, SpruceSettings};
use super::udpst::{Udpst, UdpstSettings};
use super::yaz::{Yaz, YazSettings};
use super::{Abacus, AbacusSettings, Method, Setup};

/// The settings of one method. In JSON and TOML: the settings' own fields beside `method`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "method", rename_all = "snake_case")]
pub enum Settings {
    /// vtare's own: what crossed a queue that was kept busy, summed up.
    #[serde(alias = "vtare")]
    Abacus(AbacusSettings),
    /// Rate of back-to-back trains: an upper bound.
    Adr(AdrSettings),
    /// One stream a step, the gap widened by half of what the path adds.
    Yaz(YazSettings),
    /// Trains at a rate that climbs by a shrinking step (a reconstruction).
    Kite(KiteSettings),
    /// Trains or trains of pairs from a rate that is too high downwards (a reconstruction).
    Kite2(Kite2Settings),
    /// Fleets of streams and the trend of their delay.
    Pathload(PathloadSettings),
    /// Chirps and where in them the delay begins to rise.
    Pathchirp(PathchirpSettings),
    /// Chirps that are dense in the middle.
    Assolo(AssoloSettings),
    /// Gaps that grew at the turning point.
    Igi(IgiSettings),
    /// Rate of arrival at the turning point.
    Ptr(IgiSettings),
    /// Pairs at the capacity and what came between them.
    Spruce(SpruceSettings),
    /// Back-to-back pairs and how much longer their mean gap is.
    Abing(AbingSettings),
    /// Capacity search of RFC 9097.
    Udpst(UdpstSettings),
    /// Capacity from modes of pairs.
    Pathrate(PathrateSettings),
}

/// A method as the command line lists it.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// What it is, in a line.
    pub summary: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// Its default settings.
    pub default: fn() -> Settings,
    /// Other settings that have a name.
    pub presets: &'static [Preset],
}

/// Settings that have a name, as of a published experiment.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Name, behind the method's name and a colon: `kite2:kachan-optimized`.
    pub name: &'static str,
    /// Where they come from.
    pub source: &'static str,
    /// The settings.
    pub settings: fn() -> Settings,
}

/// All methods.
pub static METHODS: &[Entry] = &[
    Entry {
        name: "abacus",
        summary: "primed trains: a queue that is kept busy, and its account",
        source: "docs/methods/avb.md",
        default: || Settings::Abacus(AbacusSettings::default()),
        presets: &[Preset {
            name: "thorough",
            source: "eight times the bytes: narrower intervals, and a longer mean of bursty traffic",
            settings: || Settings::Abacus(AbacusSettings::thorough()),
        }],
    },
    Entry {
        name: "adr",
        summary: "rate at which back-to-back trains arrive: an upper bound",
        source: "Dovrolis, Ramanathan, Moore 2001, What do packet dispersion techniques measure?",
        default: || Settings::Adr(AdrSettings::default()),
        presets: &[],
    },
    Entry {
        name: "yaz",
        summary: "one stream a step, its gap widened by half of what the path adds to it",
        source: "Sommers, Barford, Willinger 2006, A Proposed Framework for Calibration of Available Bandwidth \
            Estimation Tools",
        default: || Settings::Yaz(YazSettings::default()),
        presets: &[
            Preset {
                name: "kachan-default",
                source: "Kachan, Kirova, Korniiichuk 2017, Table 2, default",
                settings: || Settings::Yaz(YazSettings::default()),
            },
            Preset {
                name: "kachan-optimized",
                source: "Kachan, Kirova, Korniiichuk 2017, Table 2, optimized; the spacing is reconstructed",
                settings: || Settings::Yaz(YazSettings::kachan_optimized()),
            },
            Preset {
                name: "kirova-1g",
                source: "Kirova et al. 2019, section 2.2.3: smaller spacing for 1 Gbit/s; how small is reconstructed",
                settings: || Settings::Yaz(YazSettings::kirova_1g()),
            },
            Preset {
                name: "small-spacing",
                source: "spacings from 1 us on, not cut to whole microseconds",
                settings: || Settings::Yaz(YazSettings::small_spacing()),
            },
        ],
    },
    Entry {
        name: "kite",
        summary: "trains at a rate that climbs by a shrinking step; a reconstruction",
        source: "Kachan, Siemens 2015, Available Bandwidth Measurement for 10 Gbps Networks",
        default: || Settings::Kite(KiteSettings::default()),
        presets: &[
            Preset {
                name: "kachan-default",
                source: "Kachan, Kirova, Korniiichuk 2017, Table 2, default",
                settings: || Settings::Kite(KiteSettings::default()),
            },
            Preset {
                name: "kachan-optimized",
                source: "Kachan, Kirova, Korniiichuk 2017, Table 2, optimized",
                settings: || Settings::Kite(KiteSettings::kachan_optimized()),
            },
        ],
    },
    Entry {
        name: "kite2",
        summary: "trains or trains of pairs from a rate that is too high downwards; a reconstruction",
        source: "Kachan, Kirova, Korniiichuk 2017, Performance evaluation of PRM-based available bandwidth using \
            estimation tools",
        default: || Settings::Kite2(Kite2Settings::default()),
        presets: &[
            Preset {
                name: "kachan-default",
                source: "Kachan, Kirova, Korniiichuk 2017, Table 2, default",
                settings: || Settings::Kite2(Kite2Settings::default()),
            },
            Preset {
                name: "kachan-optimized",
                source: "Kachan, Kirova, Korniiichuk 2017, Table 2, optimized",
                settings: || Settings::Kite2(Kite2Settings::kachan_optimized()),
            },
            Preset {
                name: "packet-train",
                source: "packet trains, all else as by default",
                settings: || Settings::Kite2(Kite2Settings::packet_train()),
            },
        ],
    },
    Entry {
        name: "pathload",
        summary: "fleets of streams at one rate and the trend of their delay",
        source: "Jain, Dovrolis 2002, Pathload: a measurement tool for end-to-end available bandwidth",
        default: || Settings::Pathload(PathloadSettings::default()),
        presets: &[],
    },
    Entry {
        name: "pathchirp",
        summary: "chirps whose rate rises exponentially, and where the delay begins to rise",
        source: "Ribeiro et al. 2003, pathChirp: efficient available bandwidth estimation for network paths",
        default: || Settings::Pathchirp(PathchirpSettings::default()),
        presets: &[],
    },
    Entry {
        name: "assolo",
        summary: "chirps whose rates are dense in the middle of the range",
        source: "Goldoni, Rossi, Torelli 2009, Assolo, a new method for available bandwidth estimation",
        default: || Settings::Assolo(AssoloSettings::default()),
        presets: &[],
    },
    Entry {
        name: "igi",
        summary: "the gaps that grew at the turning point, and the capacity",
        source: "Hu, Steenkiste 2003, Evaluation and characterization of available bandwidth probing techniques",
        default: || Settings::Igi(IgiSettings::default()),
        presets: &[],
    },
    Entry {
        name: "ptr",
        summary: "the rate at which trains arrive at the turning point",
        source: "Hu, Steenkiste 2003, Evaluation and characterization of available bandwidth probing techniques",
        default: || Settings::Ptr(IgiSettings::default()),
        presets: &[],
    },
    Entry {
        name: "spruce",
        summary: "pairs sent at the capacity, and what came between their packets",
        source: "Strauss, Katabi, Kaashoek 2003, A measurement study of available bandwidth estimation tools",
        default: || Settings::Spruce(SpruceSettings::default()),
        presets: &[],
    },
    Entry {
        name: "abing",
        summary: "back-to-back pairs, and how much longer their mean gap is than most",
        source: "Navratil, Cottrell 2003, ABwE: a practical approach to available bandwidth estimation",
        default: || Settings::Abing(AbingSettings::default()),
        presets: &[],
    },
    Entry {
        name: "udpst",
        summary: "capacity by keeping the link full: table of rates, moved by loss and delay",
        source: "RFC 9097; Broadband Forum TR-471 (OB-UDPST)",
        default: || Settings::Udpst(UdpstSettings::default()),
        presets: &[Preset {
            name: "type-c",
            source: "algorithm C: doubles the row",
            settings: || Settings::Udpst(UdpstSettings::type_c()),
        }],
    },
    Entry {
        name: "pathrate",
        summary: "capacity from the modes of packet pairs and the rate of long trains",
        source: "Dovrolis, Ramanathan, Moore 2004, Packet-dispersion techniques and a capacity-estimation methodology",
        default: || Settings::Pathrate(PathrateSettings::default()),
        presets: &[Preset {
            name: "short",
            source: "a tenth of the pairs and trains",
            settings: || Settings::Pathrate(PathrateSettings::short()),
        }],
    },
];

/// The own method's name before it had one of its own.
pub const ALIAS: &str = "vtare";

/// Methods that need no stamp for each packet of a back-to-back train.
const ANY_STAMPS: [&str; 3] = ["abacus", ALIAS, "adr"];

/// Whether a method needs no stamp for each packet of a back-to-back train; the name may have a preset behind it.
#[must_use]
pub fn takes_any_stamps(name: &str) -> bool {
    ANY_STAMPS.contains(&name.split(':').next().unwrap_or_default())
}

/// The method of that name; the own one also as [`ALIAS`].
#[must_use]
pub fn entry(name: &str) -> Option<&'static Entry> {
    let name = if name == ALIAS { "abacus" } else { name };
    METHODS.iter().find(|entry| entry.name == name)
}

impl Settings {
    /// Default or preset settings: `NAME` or `NAME:PRESET`.
    ///
    /// # Errors
    /// A name that does not exist; the error lists those that do.
    pub fn named(name: &str) -> Result<Self, SettingsError> {
        let (method, preset) = name.split_once(':').map_or((name, None), |(method, preset)| (method, Some(preset)));
        let list = |names: Vec<&str>| format!("one of {}", names.join(", "));
        let Some(entry) = entry(method) else {
            let want = list(METHODS.iter().map(|entry| entry.name).collect());
            return Err(SettingsError { what: "method", found: method.to_owned(), want });
        };
        let Some(preset) = preset else {
            return Ok((entry.default)());
        };
        match entry.presets.iter().find(|it| it.name == preset) {
            Some(it) => Ok((it.settings)()),
            None if entry.presets.is_empty() => {
                let want = format!("none: {method} has no presets");
                Err(SettingsError { what: "preset", found: preset.to_owned(), want })
            }
            None => {
                let want = list(entry.presets.iter().map(|it| it.name).collect());
                Err(SettingsError { what: "preset", found: preset.to_owned(), want })
            }
        }
    }

    /// A measurement that has not begun.
    ///
    /// # Errors
    /// The first setting that cannot be.
    pub fn method(&self, setup: Setup) -> Result<Box<dyn Method>, SettingsError> {
        match self {
            Self::Abacus(settings) => {
                settings.check()?;
                Ok(Box::new(Abacus::new(*settings, setup)))
            }
            Self::Adr(settings) => {
                if settings.trains == 0 || settings.packets < 2 {
                    let found = format!("{} trains of {} packets", settings.trains, settings.packets);
                    let want = "at least 1 train of at least 2 packets".to_owned();
                    return Err(SettingsError { what: "trains, packets", found, want });
                }
                Ok(Box::new(Adr::new(*settings, setup)))
            }
            Self::Yaz(it) => it.check().map(|()| classic(Yaz::new(*it, &setup), setup)),
            Self::Kite(it) => it.check().map(|()| classic(Kite::new(*it, &setup), setup)),
            Self::Kite2(it) => it.check().map(|()| classic(Kite2::new(*it, &setup), setup)),
            Self::Pathload(it) => it.check().map(|()| classic(Pathload::new(*it, &setup), setup)),
            Self::Pathchirp(it) => it.check().map(|()| classic(pathchirp(*it, &setup), setup)),
            Self::Assolo(it) => it.check().map(|()| classic(assolo(*it, &setup), setup)),
            Self::Igi(it) => it.check().map(|()| classic(Igi::new(*it, Formula::Igi, &setup), setup)),
            Self::Ptr(it) => it.check().map(|()| classic(Igi::new(*it, Formula::Ptr, &setup), setup)),
            Self::Spruce(it) => it.check().map(|()| classic(Spruce::new(*it, &setup), setup)),
            Self::Abing(it) => it.check().map(|()| classic(Abing::new(*it, &setup), setup)),
            Self::Udpst(it) => it.check().map(|()| classic(Udpst::new(*it, &setup), setup)),
            Self::Pathrate(it) => it.check().map(|()| classic(Pathrate::new(*it, &setup), setup)),
        }
    }
}

fn classic<R: Rules + 'static>(rules: R, setup: Setup) -> Box<dyn Method> {
    Box::new(Classic::new(rules, setup))
}
