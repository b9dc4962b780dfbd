//! The open loop over a link that is scripted: when it wakes, how much room it has.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use proptest::prelude::*;
use vtare_pathsim::{HopSpec, Pause};
use vtare_probe::link::{
    Burst, Departure, Facts, Incoming, LinkError, LocalDrops, Outgoing, ProbeLink, Stamp, StampSource,
};
use vtare_probe::open_loop::{Ended, Event, Lead, Observer, Options, run};
use vtare_probe::schedule::{Pattern, Schedule, Slot};
use vtare_probe::sim::{Echo, SimLink, SimSpec};
use vtare_units::{Monotonic, Pace, Timestamp};

fn at(ns: u64) -> Timestamp<Monotonic> {
    Timestamp::from_nanos(ns)
}

/// A link whose clock moves as the test sets it, and whose kernel has room for this many datagrams a call.
struct Scripted {
    facts: Facts,
    now: Timestamp<Monotonic>,
    /// How late each wait ends, in turn; 0 when used up.
    late_ns: VecDeque<u64>,
    room: usize,
    /// Each call: when, and which datagrams with their first byte.
    calls: Vec<(u64, Vec<(u64, u8)>)>,
    departures: Vec<u64>,
    /// The launch time of each datagram that has one.
    launches: Vec<u64>,
}

impl Scripted {
    fn new(late_ns: impl IntoIterator<Item = u64>, room: usize) -> Self {
        let sim = SimLink::new(&SimSpec::symmetric(vec![], 1), Echo).expect("no hops are fine");
        let late_ns = late_ns.into_iter().collect();
        Self {
            facts: sim.facts().clone(),
            now: at(0),
            late_ns,
            room,
            calls: Vec::new(),
            departures: Vec::new(),
            launches: Vec::new(),
        }
    }
}

impl ProbeLink for Scripted {
    fn facts(&self) -> &Facts {
        &self.facts
    }
    fn now(&self) -> Timestamp<Monotonic> {
        self.now
    }
    fn send(&mut self, datagrams: &[Outgoing<'_>]) -> Result<Burst, LinkError> {
        let accepted = datagrams.len().min(self.room);
        let told = datagrams.iter().map(|it| (it.sequence, it.payload[0])).collect();
        self.calls.push((self.now.as_nanos(), told));
        self.launches.extend(datagrams.iter().filter_map(|it| Some(it.launch?.as_nanos())));
        self.departures.extend(datagrams[..accepted].iter().map(|it| it.sequence));
        Ok(Burst { accepted, before: self.now, after: self.now })
    }
    fn receive(&mut self, until: Timestamp<Monotonic>, _: &mut dyn FnMut(Incoming<'_>)) -> Result<(), LinkError> {
        if until > self.now {
            self.now = at(until.as_nanos() + self.late_ns.pop_front().unwrap_or(0));
        }
        Ok(())
    }
    fn departures(&mut self, sink: &mut dyn FnMut(Departure)) -> Result<(), LinkError> {
        let stamp = Stamp { at: self.now, source: StampSource::Software };
        self.departures.drain(..).for_each(|sequence| sink(Departure { sequence, stamp }));
        Ok(())
    }
    fn local_drops(&mut self) -> Result<LocalDrops, LinkError> {
        Ok(LocalDrops::default())
    }
}

#[derive(Default)]
struct Notes {
    /// Every slot given, in order: its number and what became of it.
    slots: Vec<(u64, &'static str)>,
    departed: Vec<u64>,
    turns: Vec<u64>,
    /// Ends the run at this slot.
    stop_at: Option<u64>,
}

impl Observer for Notes {
    fn fill(&mut self, slot: &Slot, _: Timestamp<Monotonic>, datagram: &mut [u8]) {
        datagram.fill(slot.sequence as u8);
    }
    fn observe(&mut self, event: Event<'_>) -> ControlFlow<()> {
        match event {
            Event::Sent { slot, .. } => self.slots.push((slot.sequence, "sent")),
            Event::TooLate { slot, .. } => self.slots.push((slot.sequence, "too late")),
            Event::NoRoom { slot, .. } => self.slots.push((slot.sequence, "no room")),
            Event::Departed(departure) => self.departed.push(departure.sequence),
            Event::Turn(now) => self.turns.push(now.as_nanos()),
            Event::Arrived(_) => {}
        }
        let stop = self.slots.last().is_some_and(|last| Some(last.0) == self.stop_at);
        if stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// One datagram of 18 B every microsecond.
fn slots(packets: u64) -> impl Iterator<Item = Slot> {
    let pattern = Pattern::Constant { pace: Pace { packets: 1, span_ns: 1_000 } };
    let schedule = Schedule { pattern, size_byte: 18, packets: Some(packets), duration_ns: None, seed: 0 };
    schedule.slots().expect("a good schedule")
}

fn options() -> Options {
    Options { lead_in_ns: 1_000, catch_up_ns: 3_500, batch: 3, turn_ns: 1_000_000, linger_ns: 5_000, launch: None }
}

fn go(link: &mut Scripted, notes: &mut Notes, packets: u64) -> Ended {
    run(link, slots(packets), &options(), notes).expect("a scripted link does not fail")
}

#[test]
fn a_punctual_link_sends_each_slot_alone_and_on_time() {
    let (mut link, mut notes) = (Scripted::new([], 9), Notes::default());
    let ended = go(&mut link, &mut notes, 3);
    assert_eq!(link.calls, [(1_000, vec![(0, 0)]), (2_000, vec![(1, 1)]), (3_000, vec![(2, 2)])]);
    assert_eq!((ended.started, ended.ended, ended.broken_off), (at(1_000), at(8_000), false));
    assert_eq!(notes.departed, [0, 1, 2]);
}

#[test]
fn datagrams_with_launch_times_are_handed_over_together_before_they_are_due() {
    let (mut link, mut notes) = (Scripted::new([], 9), Notes::default());
    let lead = Lead { ahead_ns: 4_000, least_ns: 0 };
    let options = Options { batch: 9, launch: Some(lead), ..options() };
    let ended = run(&mut link, slots(8), &options, &mut notes).expect("a scripted link does not fail");
    // The first is due after the lead-in and the lead; half the lead before that, all that is due within the lead is
    // handed over.
    assert_eq!(ended.started, at(5_000));
    let calls: Vec<(u64, usize)> = link.calls.iter().map(|(when, told)| (*when, told.len())).collect();
    assert_eq!(calls, [(3_000, 3), (6_000, 3), (9_000, 2)]);
    assert_eq!(link.launches, (5..13).map(|slot| slot * 1_000).collect::<Vec<_>>());
    assert!(notes.slots.iter().all(|(_, what)| *what == "sent"));
}

#[test]
fn a_datagram_that_is_late_already_is_launched_as_soon_as_the_queue_takes_it() {
    let (mut link, mut notes) = (Scripted::new([4_500], 9), Notes::default());
    let options = Options { launch: Some(Lead { ahead_ns: 4_000, least_ns: 600 }), ..options() };
    run(&mut link, slots(3), &options, &mut notes).expect("a scripted link does not fail");
    // Due at 5, 6 and 7 us; the link comes back from its first wait at 7.2 us.
    assert_eq!(link.calls.first().map(|call| call.0), Some(7_200));
    assert_eq!(link.launches, [7_800, 7_800, 7_800]);
}

#[test]
fn a_late_link_sends_what_is_due_together_in_batches_of_the_size_given() {
    let (mut link, mut notes) = (Scripted::new([3_100], 9), Notes::default());
    go(&mut link, &mut notes, 6);
    let calls: Vec<(u64, usize)> = link.calls.iter().map(|(when, told)| (*when, told.len())).collect();
    assert_eq!(calls, [(4_100, 3), (4_100, 1), (5_000, 1), (6_000, 1)]);
    assert!(link.calls.iter().flat_map(|call| &call.1).all(|&(sequence, byte)| sequence == u64::from(byte)));
}

#[test]
fn slots_later_than_catching_up_allows_are_shown_and_not_sent() {
    let (mut link, mut notes) = (Scripted::new([5_500], 9), Notes::default());
    go(&mut link, &mut notes, 6);
    // At 6.5 us the slots of 1 and 2 us are more than 3.5 us late, that of 3 us is just that.
    let told: Vec<&str> = notes.slots.iter().map(|slot| slot.1).collect();
    assert_eq!(told, ["too late", "too late", "sent", "sent", "sent", "sent"]);
}

/// Each read of what has arrived takes as long as two slots.
struct Slow(Scripted);

impl ProbeLink for Slow {
    fn facts(&self) -> &Facts {
        self.0.facts()
    }
    fn now(&self) -> Timestamp<Monotonic> {
        self.0.now()
    }
    fn send(&mut self, datagrams: &[Outgoing<'_>]) -> Result<Burst, LinkError> {
        self.0.send(datagrams)
    }
    fn receive(&mut self, until: Timestamp<Monotonic>, sink: &mut dyn FnMut(Incoming<'_>)) -> Result<(), LinkError> {
        self.0.receive(until, sink)?;
        self.0.now = at(self.0.now.as_nanos() + 2_000);
        Ok(())
    }
    fn departures(&mut self, sink: &mut dyn FnMut(Departure)) -> Result<(), LinkError> {
        self.0.departures(sink)
    }
    fn local_drops(&mut self) -> Result<LocalDrops, LinkError> {
        self.0.local_drops()
    }
}

/// One that left out a slot a look would fall behind by a slot with each, and send nothing ever after.
#[test]
fn a_sender_that_was_stopped_for_long_skips_many_slots_a_look_and_is_back() {
    let stop = [0, 0, 0, 30_000_000];
    let mut link = Slow(Scripted::new(stop, usize::MAX));
    let mut notes = Notes::default();
    run(&mut link, slots(60_000), &options(), &mut notes).expect("a scripted link does not fail");
    assert_eq!(notes.slots.len(), 60_000, "every slot is accounted for");
    let skipped = notes.slots.iter().filter(|(_, fate)| *fate == "too late").count();
    assert!((29_900..30_100).contains(&skipped), "{skipped} of the 30,000 slots of the stop");
    assert!(notes.slots[31_000..].iter().all(|(_, fate)| *fate == "sent"));
}

#[test]
fn what_the_kernel_has_no_room_for_is_shown() {
    let (mut link, mut notes) = (Scripted::new([3_100], 2), Notes::default());
    go(&mut link, &mut notes, 4);
    assert_eq!(notes.slots, [(0, "sent"), (1, "sent"), (2, "no room"), (3, "sent")]);
}

#[test]
fn an_observer_ends_the_loop_and_nothing_is_sent_afterwards() {
    let (mut link, mut notes) = (Scripted::new([], 9), Notes { stop_at: Some(1), ..Notes::default() });
    let ended = go(&mut link, &mut notes, 100);
    assert_eq!((notes.slots.len(), ended.broken_off, ended.ended), (2, true, at(2_000)));
    assert_eq!(notes.departed, [0, 1], "what has left is still given");
}

#[test]
fn long_gaps_are_cut_into_turns() {
    let (mut link, mut notes) = (Scripted::new([], 9), Notes::default());
    let options = Options { turn_ns: 1_000, linger_ns: 10_000, ..options() };
    run(&mut link, slots(1), &options, &mut notes).expect("a scripted link does not fail");
    assert!(notes.turns.len() >= 9, "{:?}", notes.turns);
    assert!(notes.turns.windows(2).all(|pair| pair[1] - pair[0] >= 1_000), "{:?}", notes.turns);
}

#[test]
fn the_loop_runs_over_any_link_behind_the_trait() {
    let mut spec = SimSpec::symmetric(vec![HopSpec::new(1_000_000_000, 100_000, 1_000)], 1);
    spec.near.send_noise.pauses = vec![Pause { at_ns: 50_000, span_ns: 20_000 }];
    let mut link: Box<dyn ProbeLink> = Box::new(SimLink::new(&spec, Echo).expect("a good path"));
    let mut notes = Notes::default();
    run(link.as_mut(), slots(100), &Options::default(), &mut notes).expect("a simulated link does not fail");
    assert_eq!(notes.slots.len(), 100);
}

proptest! {
    #[test]
    fn every_slot_is_shown_once_in_order_and_what_was_sent_departs(
        late in proptest::collection::vec(0_u64..12_000, 0..60), room in 0_usize..4, packets in 0_u64..80,
    ) {
        let (mut link, mut notes) = (Scripted::new(late, room), Notes::default());
        go(&mut link, &mut notes, packets);
        prop_assert!(notes.slots.iter().map(|slot| slot.0).eq(0..packets));
        let sent: Vec<u64> = notes.slots.iter().filter(|slot| slot.1 == "sent").map(|slot| slot.0).collect();
        prop_assert_eq!(notes.departed, sent);
    }
}
