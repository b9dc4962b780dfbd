//! The client against the far end, over loopback, with short intervals.

mod common;

use common::Far;
use tokio::sync::watch;
use vtare_methods::rpm::{Direction, RpmEvent, RpmFigures, RpmLimits, RpmSettings};
use vtare_responsiveness::{RpmError, measure};

/// Ten intervals a direction at most.
const SHORT: RpmSettings = RpmSettings {
    distance: 4,
    interval_ns: 200_000_000,
    kept_share: 0.95,
    tolerance: 0.05,
    initial_connections: 1,
    added_connections: 1,
    most_connections: 4,
    most_probes_per_s: 100.0,
    probe_share: 0.05,
    most_ns: 2_000_000_000,
};

async fn measured(peer: &str, settings: RpmSettings, stop: bool) -> (Result<(), RpmError>, Vec<RpmEvent>) {
    let (_keep, stopped) = watch::channel(stop);
    let mut events = Vec::new();
    let ended = measure::measure(peer, 1, settings, stopped, &mut |event: &RpmEvent| events.push(event.clone())).await;
    (ended, events)
}

fn directions(events: &[RpmEvent]) -> Vec<(Direction, RpmFigures, Option<String>)> {
    let of = |event: &RpmEvent| match event {
        RpmEvent::Direction { direction, figures, lost, .. } => Some((*direction, figures.clone(), lost.clone())),
        _ => None,
    };
    events.iter().filter_map(of).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn both_directions_are_measured_within_the_rate_of_the_far_end() {
    let rate = 100_000_000;
    let far = Far::with(RpmLimits { rate_bit_per_s: rate, ..RpmLimits::default() }).await;
    let (ended, events) = measured(&far.address().to_string(), SHORT, false).await;
    assert_eq!(ended, Ok(()));
    assert!(matches!(events[0], RpmEvent::Reached { idle_rtt_ns: 1.., .. }), "{:?}", events[0]);
    let found = directions(&events);
    assert_eq!(found.iter().map(|one| one.0).collect::<Vec<_>>(), [Direction::Down, Direction::Up]);
    for (direction, figures, lost) in found {
        assert_eq!(lost, None);
        assert!(figures.responsiveness.is_some_and(|found| found.rpm > 0.0), "{figures:?}");
        assert!(figures.foreign_probes > 0 && figures.self_probes > 0, "{figures:?}");
        let rows = |event: &&RpmEvent| matches!(event, RpmEvent::Probe { direction: of, .. } if *of == direction);
        let rows = events.iter().filter(rows).count() as u64;
        assert!(rows >= figures.foreign_probes + figures.self_probes, "each probe is reported: {rows}");
        let most = rate as f64 / 8.0 * (figures.elapsed_s + 0.5);
        assert!((1e5..most).contains(&(figures.load_byte as f64)), "{figures:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_far_end_that_ends_the_load_ends_the_run_with_what_is_known() {
    let far = Far::with(RpmLimits { connection_ns: 700_000_000, ..RpmLimits::default() }).await;
    let (ended, events) = measured(&far.address().to_string(), SHORT, false).await;
    assert_eq!(ended, Ok(()));
    let found = directions(&events);
    assert_eq!(found.len(), 1);
    assert!(found[0].2.as_ref().is_some_and(|lost| lost.contains("load-generating connection")), "{found:?}");
    assert!(found[0].1.load_byte > 0);
}

#[tokio::test]
async fn what_cannot_be_reached_is_an_error_that_names_it() {
    let (ended, events) = measured("127.0.0.1:1", SHORT, false).await;
    assert!(matches!(&ended, Err(RpmError::Peer(text)) if text.contains("127.0.0.1:1")), "{ended:?}");
    assert!(events.is_empty());
    let (ended, _) = measured("a b", SHORT, false).await;
    assert!(matches!(ended, Err(RpmError::Input(_))), "{ended:?}");
    // Asked to stop before anything began.
    let far = Far::with(RpmLimits::default()).await;
    let (ended, events) = measured(&far.address().to_string(), SHORT, true).await;
    assert!(ended.is_ok() && directions(&events).len() <= 1, "{events:?}");
}
