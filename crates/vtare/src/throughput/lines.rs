//! What was measured beside throughput and latency, as lines below the table.

use vtare_methods::throughput::{Counted, CriticalLoad, Recovered, Soaked};

use super::cell::BackToBackAt;
use super::shown::{frames, percent, void_cause};
use crate::table::time;

/// What a long load lost, as a line.
pub(super) fn soak(soaked: &Soaked) -> String {
    let load = frames(Some(soaked.packet_per_s as f64));
    let Counted { duration_s, sent, lost, trials, lossy_trials: lossy, .. } = soaked.counted;
    let void = void_trials(soaked.counted.void_trials, soaked.counted.void_because);
    let Some(ratio) = soaked.loss_ratio else {
        return format!("soak at {load}: no trial counted{void}\n");
    };
    let lost = if lost == 0 {
        let below = percent(3.0 / sent as f64);
        format!("lost none of {sent} frames in {trials} trials, below {below} if frames are lost one by one")
    } else {
        let interval = soaked
            .loss_interval
            .map_or_else(String::new, |[low, high]| format!(" (95 % interval {} to {})", percent(low), percent(high)));
        format!("lost {lost} of {sent} frames, {}{interval}, in {lossy} of {trials} trials", percent(ratio))
    };
    format!("soak at {load} for {}: {lost}{void}\n", time(Some(duration_s * 1e9)))
}

/// Trials that did not count, as the end of a line.
fn void_trials(trials: u64, because: Option<&'static str>) -> String {
    let because = void_cause(because).map_or_else(String::new, |because| format!(", most since {because}"));
    if trials == 0 { String::new() } else { format!("; {trials} more were void{because}") }
}

/// The load that loses a given share in the long run, as a line.
pub(super) fn critical_load(critical: &CriticalLoad) -> String {
    let counted = &critical.counted;
    let lasted = time(Some(counted.duration_s * 1e9));
    let (share, void) = (percent(critical.loss_ratio), void_trials(counted.void_trials, counted.void_because));
    let Some((mean, [low, high])) = critical.packet_per_s.zip(critical.interval_packet_per_s) else {
        return format!("load that loses {share} in the long run: no trial counted{void}\n");
    };
    let bound = if critical.at_least { "at least " } else { "" };
    let load = if critical.at_least { low } else { mean };
    let interval = if critical.at_least {
        ", with a probability of 97.5 %".to_owned()
    } else {
        format!(" (95 % interval {} to {})", frames(Some(low)), frames(Some(high)))
    };
    format!(
        "load that loses {share} in the long run: {bound}{}{interval}, after {lasted}: {} of {} frames lost, in {} of \
         {} trials{void}\n",
        frames(Some(load)),
        counted.lost,
        counted.sent,
        counted.lossy_trials,
        counted.trials
    )
}

/// How long frames were lost after an overload, as a line.
pub(super) fn recovery(recovered: &Recovered) -> String {
    let rate = |packet_per_s: u64| frames(Some(packet_per_s as f64));
    let (times, of) = (&recovered.recovery_ns, recovered.trials);
    let what = match times.median {
        None if of == 0 => "no trial counted".to_owned(),
        None => "nothing was lost in the overload, so there is nothing to recover from".to_owned(),
        Some(median) => {
            let least = if 2 * recovered.unrecovered >= times.n { "at least " } else { "" };
            let interval = times
                .interval
                .map_or_else(String::new, |[low, high]| format!(", {} to {}", time(Some(low)), time(Some(high))));
            let share = percent(recovered.overload_loss_ratio.unwrap_or(0.0));
            let until =
                if median > 0.0 { format!("frames until {least}{}", time(Some(median))) } else { "none".to_owned() };
            let (then, n) = (rate(recovered.after_packet_per_s), times.n);
            format!("{share} lost, and {until} after the step to {then} (median of {n}{interval})")
        }
    };
    let overload = time(Some(recovered.overload_s * 1e9));
    let void = void_trials(recovered.void_trials, recovered.void_because);
    format!("recovery from {} for {overload}: {what}{void}\n", rate(recovered.overload_packet_per_s))
}

/// The longest bursts, and the buffers that they show, as a line.
pub(super) fn back_to_back(bursts: &BackToBackAt) -> String {
    let bound = if bursts.censored.is_some() { "at least " } else { "" };
    let longest = bursts.frames.median.map_or_else(
        || "none, however short, passed whole".to_owned(),
        |most| format!("{bound}{most:.0} frames passed whole (median of {})", bursts.frames.n),
    );
    let buffer = bursts.buffer_frames.zip(bursts.buffer_ns).map_or_else(String::new, |(frames, ns)| {
        format!(": buffers hold {bound}{frames:.0} frames, {} of such a burst", time(Some(ns)))
    });
    format!("bursts at {}: {longest}{buffer}\n", frames(Some(bursts.packet_per_s as f64)))
}

#[cfg(test)]
mod tests {
    use vtare_methods::throughput::Repeated;

    use super::*;

    #[test]
    fn a_soak_is_a_line_with_the_interval_where_it_has_one() {
        let mut soaked = Soaked {
            packet_per_s: 200_000,
            counted: Counted {
                duration_s: 60.0,
                trials: 200,
                lossy_trials: 3,
                sent: 12_000_000,
                lost: 1_200,
                ..Counted::default()
            },
            loss_ratio: Some(1e-4),
            loss_interval: Some([0.0, 2.5e-4]),
            ..Soaked::default()
        };
        let line = "soak at 200.0 kpacket/s for 60.0 s: lost 1200 of 12000000 frames, 0.0100 % (95 % interval 0 % \
                    to 0.0250 %), in 3 of 200 trials\n";
        assert_eq!(soak(&soaked), line);
        (soaked.loss_ratio, soaked.loss_interval) = (Some(0.0), None);
        soaked.counted = Counted { lost: 0, void_trials: 2, void_because: Some("busy"), ..soaked.counted };
        let line = "soak at 200.0 kpacket/s for 60.0 s: lost none of 12000000 frames in 200 trials, below 0.0000250 % \
                    if frames are lost one by one; 2 more were void, most since other programs used the CPUs\n";
        assert_eq!(soak(&soaked), line);
        soaked.loss_ratio = None;
        soaked.counted.void_because = Some("generator_short");
        let line =
            "soak at 200.0 kpacket/s: no trial counted; 2 more were void, most since the sender missed its rate\n";
        assert_eq!(soak(&soaked), line);
    }

    #[test]
    fn a_critical_load_is_a_line_with_its_interval_or_a_lower_bound() {
        let mut critical = CriticalLoad {
            loss_ratio: 1e-5,
            packet_per_s: Some(200e3),
            interval_packet_per_s: Some([190e3, 210e3]),
            counted: Counted {
                duration_s: 60.0,
                trials: 70,
                lossy_trials: 9,
                sent: 12_000_000,
                lost: 130,
                ..Counted::default()
            },
            ..CriticalLoad::default()
        };
        let line = "load that loses 0.00100 % in the long run: 200.0 kpacket/s (95 % interval 190.0 kpacket/s to 210.0 \
                    kpacket/s), after 60.0 s: 130 of 12000000 frames lost, in 9 of 70 trials\n";
        assert_eq!(critical_load(&critical), line);
        critical.at_least = true;
        assert!(
            critical_load(&critical).contains("run: at least 190.0 kpacket/s, with a probability of 97.5 %, after")
        );
        critical.packet_per_s = None;
        let line = "load that loses 0.00100 % in the long run: no trial counted\n";
        assert_eq!(critical_load(&critical), line);
    }

    #[test]
    fn a_recovery_is_a_line_that_states_a_lower_bound_as_such_and_no_overload() {
        let mut recovered = Recovered {
            overload_packet_per_s: 220_000,
            overload_s: 60.0,
            after_packet_per_s: 110_000,
            trials: 3,
            recovery_ns: Repeated::of(&[12e6, 10e6, 14e6]),
            overload_loss_ratio: Some(0.1),
            ..Recovered::default()
        };
        let line = "recovery from 220.0 kpacket/s for 60.0 s: 10.0 % lost, and frames until 12.0 ms after the step to \
                    110.0 kpacket/s (median of 3, 10.0 ms to 14.0 ms)\n";
        assert_eq!(recovery(&recovered), line);
        recovered.unrecovered = 2;
        assert!(recovery(&recovered).contains("until at least 12.0 ms"));
        recovered.recovery_ns = Repeated::of(&[0.0]);
        assert!(
            recovery(&recovered).ends_with("10.0 % lost, and none after the step to 110.0 kpacket/s (median of 1)\n")
        );
        recovered.recovery_ns = Repeated::default();
        assert!(recovery(&recovered).ends_with(
            ": nothing was lost in the overload, so there is nothing to recover \
                                                     from\n"
        ));
        recovered = Recovered { trials: 0, void_trials: 3, void_because: Some("stalled"), ..recovered };
        let end = ": no trial counted; 3 more were void, most since the sending thread stalled\n";
        assert!(recovery(&recovered).ends_with(end));
    }

    #[test]
    fn bursts_are_a_line_with_the_buffer_where_it_is_known() {
        let mut bursts = BackToBackAt { packet_per_s: 1_000_000, ..BackToBackAt::default() };
        assert_eq!(back_to_back(&bursts), "bursts at 1.000 Mpacket/s: none, however short, passed whole\n");
        (bursts.frames.n, bursts.frames.median) = (3, Some(1_100.0));
        (bursts.buffer_ns, bursts.buffer_frames, bursts.censored) = (Some(825e3), Some(825.0), Some("range"));
        let line = "bursts at 1.000 Mpacket/s: at least 1100 frames passed whole (median of 3): buffers hold at least \
                    825 frames, 825 us of such a burst\n";
        assert_eq!(back_to_back(&bursts), line);
    }
}
