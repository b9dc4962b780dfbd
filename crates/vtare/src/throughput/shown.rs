//! Figures of throughput for people.

use crate::sentences::throughput as words;

/// At the throughput, this share of a trial or more spent waiting by one frame in a hundred means that queues gave what
/// was found.
pub(super) const MOST_QUEUED: f64 = 0.05;

/// Frames a second for people.
pub(super) fn frames(rate: Option<f64>) -> String {
    match rate {
        None => "-".to_owned(),
        Some(rate) if rate < 999.5 => format!("{rate:.0} packet/s"),
        Some(rate) if rate < 999.5e3 => format!("{:.1} kpacket/s", rate / 1e3),
        Some(rate) => format!("{:.3} Mpacket/s", rate / 1e6),
    }
}

/// A share of frames for people, to three digits however small.
pub(super) fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    let digits = if percent > 0.0 { (2.0 - percent.log10().floor()).clamp(0.0, 12.0) as usize } else { 0 };
    format!("{percent:.digits$} %")
}

/// Why a trial showed nothing about the device, by the name of the cause, for people.
pub(super) fn void_cause(name: Option<&str>) -> Option<String> {
    Some(match name? {
        "generator_short" => words::rate_missed(),
        "stalled" => words::thread_stalled(),
        "busy" => words::cpus_used(),
        "uncounted" => words::frames_changed(),
        "overrun" => words::analyser_full(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_shown_to_three_digits_however_small() {
        let shares = [0.0, 1.0, 0.1, 0.005, 1.25e-9].map(percent);
        assert_eq!(shares, ["0 %", "100 %", "10.0 %", "0.500 %", "0.000000125 %"]);
    }

    #[test]
    fn frames_a_second_are_shown_in_the_unit_that_fits() {
        assert_eq!(
            [None, Some(12.0), Some(194_300.0), Some(1.25e6)].map(frames),
            ["-", "12 packet/s", "194.3 kpacket/s", "1.250 Mpacket/s"]
        );
    }
}
