//! Both searches over the simulated path, whose capacity and buffer are known.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use vtare_methods::throughput::{
    Answer, BinarySearch, BinarySettings, Cap, Goal, Interleaved, MlrSettings, Mlrsearch, NextTrial, Range, Repeated,
    Search, Seen, Step, Stopped, Trial, Void,
};
use vtare_pathsim::{Fate, HopSpec, Path, PathSpec};
use vtare_units::Timestamp;

const SECOND_NS: u64 = 1_000_000_000;
/// More trials than any search needs.
const MOST_TRIALS: usize = 500;

/// A device: one queue of known rate and depth.
#[derive(Clone, Copy, Debug)]
struct Device {
    packet_per_s: u64,
    buffer_packets: u64,
    size_byte: u32,
}

impl Device {
    fn of(random: &mut StdRng) -> Self {
        Self {
            packet_per_s: random.random_range(1_000..9_000),
            buffer_packets: random.random_range(4..40),
            size_byte: random.random_range(46..1_500),
        }
    }

    fn range(&self, random: &mut StdRng) -> Range {
        Range { least: 1, most: self.packet_per_s * random.random_range(12..40) / 10 }
    }

    fn offer(&self, trial: Trial) -> Seen {
        let bits = u64::from(self.size_byte) * 8;
        let hop = HopSpec::new(self.packet_per_s * bits, self.buffer_packets * u64::from(self.size_byte), 1_000);
        let mut path = Path::new(&PathSpec { hops: vec![hop], ..PathSpec::default() }, 1).expect("a good path");
        let sent = (u128::from(trial.packet_per_s) * u128::from(trial.duration_ns) / 1_000_000_000) as u64;
        let received = (0..sent)
            .filter(|number| {
                let at = (u128::from(*number) * 1_000_000_000 / u128::from(trial.packet_per_s)) as u64;
                path.send(Timestamp::from_nanos(at), self.size_byte).fate == Fate::Arrived
            })
            .count() as u64;
        Seen { sent, received, void: None }
    }

    /// The highest load that loses no more than `loss` in `duration_ns`: what is above the capacity may wait in the
    /// buffer.
    fn most(&self, loss: f64, duration_ns: u64) -> f64 {
        let waiting = (self.buffer_packets + 1) as f64 * 1e9 / duration_ns as f64;
        (self.packet_per_s as f64 + waiting) / (1.0 - loss)
    }
}

fn answer(search: &mut dyn Search, mut offer: impl FnMut(Trial) -> Seen) -> Answer {
    for _ in 0..MOST_TRIALS {
        match search.step() {
            Step::Trial(trial) => search.observe(&offer(trial)),
            Step::Done(answer) => return answer,
        }
    }
    panic!("no end after {MOST_TRIALS} trials: {:?}", search.interim());
}

fn binary(range: Range) -> BinarySearch {
    let settings =
        BinarySettings { trial_ns: SECOND_NS, validation_ns: SECOND_NS, resolution: 0.01, ..BinarySettings::default() };
    BinarySearch::new(settings, range).expect("good settings")
}

fn mlr(range: Range) -> Mlrsearch {
    let tolerant = Goal { final_ns: SECOND_NS, sum_ns: SECOND_NS, width: 0.01, ..Goal::default() };
    let goals = vec![tolerant, Goal::zero_loss(SECOND_NS, 0.01)];
    let settings = MlrSettings { goals, ..MlrSettings::default() };
    Mlrsearch::new(settings, range).expect("good settings")
}

#[test]
fn both_end_within_their_resolution_in_100_of_100_seeds_and_mlrsearch_in_less_time() {
    let (mut binary_s, mut mlr_s) = (0.0, 0.0);
    for seed in 0..100 {
        let mut random = StdRng::seed_from_u64(seed);
        let device = Device::of(&mut random);
        let range = device.range(&mut random);
        let one = answer(&mut binary(range), |trial| device.offer(trial));
        let two = answer(&mut mlr(range), |trial| device.offer(trial));
        for found in one.goals.iter().chain(&two.goals) {
            let value = found.throughput_packet_per_s.expect("an answer");
            let (low, high) = (device.packet_per_s as f64 * 0.99 - 1.0, device.most(found.loss_ratio, SECOND_NS) + 1.0);
            assert!(found.regular && found.censored.is_none(), "seed {seed}: {found:?}");
            assert!((low..=high).contains(&value), "seed {seed}: {value} of {device:?}, {found:?}");
        }
        assert_eq!((one.stopped, two.stopped), (Stopped::Converged, Stopped::Converged));
        assert!(
            two.trial_s < one.trial_s,
            "seed {seed}: {} s by MLRsearch, {} s by binary search",
            two.trial_s,
            one.trial_s
        );
        binary_s += one.trial_s;
        mlr_s += two.trial_s;
    }
    eprintln!("trial-seconds of 100 searches: binary {binary_s:.1}, MLRsearch {mlr_s:.1} for two goals");
}

/// A device that stalls in one trial of `every`, and loses a tenth of it.
fn stumbling(device: Device, every: u64, seed: u64) -> impl FnMut(Trial) -> Seen {
    let mut random = StdRng::seed_from_u64(seed);
    move |trial| {
        let seen = device.offer(trial);
        if random.random_range(0..every) == 0 { Seen { received: seen.received * 9 / 10, ..seen } } else { seen }
    }
}

#[test]
fn mlrsearch_answers_alike_where_single_trials_fail_for_no_reason_of_the_load() {
    let device = Device { packet_per_s: 2_000, buffer_packets: 10, size_byte: 60 };
    let range = Range { least: 1, most: 6_000 };
    let goal = Goal { final_ns: 300_000_000, sum_ns: 2_700_000_000, ..Goal::default() };
    let within = |search: &mut dyn Search, seed| {
        let answer = answer(search, stumbling(device, 8, seed));
        answer.goals[0].throughput_packet_per_s.is_some_and(|value| (value / 2_000.0 - 1.0).abs() < 0.07)
    };
    let mlr_good = (0..100)
        .filter(|seed| {
            let settings = MlrSettings { goals: vec![goal], ..MlrSettings::default() };
            within(&mut Mlrsearch::new(settings, range).expect("good"), *seed)
        })
        .count();
    let binary_good = (0..100).filter(|seed| within(&mut binary(range), *seed)).count();
    eprintln!("of 100 searches within 7 %: MLRsearch {mlr_good}, binary {binary_good}");
    assert!(mlr_good >= 95 && binary_good < mlr_good, "MLRsearch {mlr_good}, binary {binary_good}");
}

/// A device on a machine that others share: for 400 ms at a time it is fast or slow, and more often slow in one half
/// minute than in the next.
struct Unsteady {
    seed: u64,
    now_s: f64,
}

impl Unsteady {
    const SLOT_S: f64 = 0.4;

    fn packet_per_s(&self, slot: u64) -> f64 {
        let often =
            0.5 + 0.4 * (std::f64::consts::TAU * (slot as f64 * Self::SLOT_S / 60.0 + self.seed as f64 / 7.0)).sin();
        let slow = StdRng::seed_from_u64(self.seed << 32 | slot).random_bool(often);
        if slow { 250_000.0 } else { 330_000.0 }
    }

    fn offer(&mut self, trial: Trial) -> Seen {
        let (load, lasts_s) = (trial.packet_per_s as f64, trial.duration_ns as f64 / 1e9);
        // Looked at every 10 ms.
        let looks = (lasts_s * 100.0).ceil() as u64;
        let slot = |look: u64| ((self.now_s + look as f64 / 100.0) / Self::SLOT_S) as u64;
        let came = (0..looks).map(|look| self.packet_per_s(slot(look)).min(load)).sum::<f64>() / looks as f64;
        // With the wait for what is under way.
        self.now_s += lasts_s + 0.08;
        let sent = (load * lasts_s) as u64;
        Seen { sent, received: ((came * lasts_s).ceil() as u64).min(sent), void: None }
    }
}

/// Half the interquartile range of answers as share of their median.
fn spread(answers: &[Answer]) -> f64 {
    let values: Vec<f64> = answers.iter().filter_map(|answer| answer.goals[0].throughput_packet_per_s).collect();
    let all = Repeated::of(&values);
    all.half_iqr.zip(all.median).map(|(half, median)| half / median).expect("nine answers")
}

#[test]
#[ignore = "seconds of simulation: make test-all"]
fn searches_in_turn_answer_more_alike_than_one_after_another_where_the_machine_changes() {
    let range = Range { least: 100, most: 2_600_000 };
    let search = || {
        let settings = MlrSettings { goals: vec![Goal::default()], ..MlrSettings::default() };
        Mlrsearch::new(settings, range).expect("good")
    };
    let (mut in_turn, mut after_another) = (Vec::new(), Vec::new());
    for seed in 0..10 {
        let mut device = Unsteady { seed, now_s: 0.0 };
        let answers: Vec<Answer> = (0..9).map(|_| answer(&mut search(), |trial| device.offer(trial))).collect();
        after_another.push((spread(&answers), device.now_s));
        let mut device = Unsteady { seed, now_s: 0.0 };
        let mut turns = Interleaved::new((0..9).map(|_| Box::new(search()) as Box<dyn Search>).collect());
        let mut answers = Vec::new();
        loop {
            match turns.step() {
                NextTrial::Trial(_, trial) => turns.observe(&device.offer(trial)),
                NextTrial::Done(_, answer) => answers.push(answer),
                NextTrial::Over => break,
            }
        }
        in_turn.push((spread(&answers), device.now_s));
    }
    let middle = |of: &[(f64, f64)]| {
        let of =
            |get: fn(&(f64, f64)) -> f64| Repeated::of(&of.iter().map(get).collect::<Vec<_>>()).median.expect("ten");
        (of(|it| it.0), of(|it| it.1))
    };
    let ((turns, turns_s), (row, row_s)) = (middle(&in_turn), middle(&after_another));
    eprintln!(
        "half IQR of nine answers, median of ten: {turns:.4} in turn ({turns_s:.0} s), {row:.4} one after another \
         ({row_s:.0} s)"
    );
    assert!(turns < row, "{in_turn:?}\n{after_another:?}");
}

/// Breaks a search off after `trials` trials; `None` where it ended before.
fn broken_off_after(trials: usize, search: &mut dyn Search, device: Device) -> Option<Answer> {
    for _ in 0..trials {
        match search.step() {
            Step::Trial(trial) => search.observe(&device.offer(trial)),
            Step::Done(_) => return None,
        }
    }
    Some(search.broken_off())
}

#[test]
fn a_search_broken_off_at_any_trial_gives_the_best_bounds_known_and_marks_them() {
    for seed in 0..10 {
        let mut random = StdRng::seed_from_u64(seed);
        let device = Device::of(&mut random);
        let range = device.range(&mut random);
        let mut answered = [0, 0];
        for trials in 0.. {
            let broken = [
                broken_off_after(trials, &mut binary(range), device),
                broken_off_after(trials, &mut mlr(range), device),
            ];
            if broken == [None, None] {
                break;
            }
            for (answer, answered) in
                broken.iter().zip(&mut answered).filter_map(|(one, sum)| Some((one.as_ref()?, sum)))
            {
                assert_eq!((answer.stopped, answer.trials), (Stopped::TimeBudget, trials as u64));
                for found in &answer.goals {
                    let value = found.throughput_packet_per_s;
                    assert_eq!(value.is_some(), found.lower_packet_per_s.is_some(), "{found:?}");
                    let wanted = value.filter(|_| !found.regular).map(|_| Cap::TimeBudget);
                    assert_eq!(found.censored, wanted, "seed {seed}, {trials} trials: {found:?}");
                    // The result of a short trial is too high at most by what waits in the buffer.
                    let high = device.most(found.loss_ratio, 50_000_000) + 1.0;
                    assert!(value.is_none_or(|value| value <= high), "seed {seed}: {value:?} of {device:?}");
                    let ends = found.lower_packet_per_s.zip(found.upper_packet_per_s);
                    assert!(ends.is_none_or(|(lower, upper)| lower < upper), "{found:?}");
                }
                *answered += usize::from(answer.goals[0].throughput_packet_per_s.is_some());
            }
        }
        assert!(answered.iter().all(|answered| *answered > 0), "seed {seed}: {answered:?}");
    }
}

#[test]
fn time_for_trials_that_is_used_up_ends_a_search_after_the_trial_in_hand() {
    let device = Device { packet_per_s: 4_000, buffer_packets: 10, size_byte: 60 };
    let range = Range { least: 1, most: 12_000 };
    let tolerant = Goal { final_ns: SECOND_NS, sum_ns: SECOND_NS, width: 0.01, ..Goal::default() };
    let settings = MlrSettings { goals: vec![tolerant], most_ns: Some(2 * SECOND_NS), ..MlrSettings::default() };
    let plain = BinarySettings { trial_ns: SECOND_NS, most_ns: Some(4 * SECOND_NS), ..BinarySettings::default() };
    let mut both: [(Box<dyn Search>, f64); 2] = [
        (Box::new(BinarySearch::new(plain, range).expect("good")), 4.0),
        (Box::new(Mlrsearch::new(settings, range).expect("good")), 2.0),
    ];
    for (search, most_s) in &mut both {
        let answer = answer(search.as_mut(), |trial| device.offer(trial));
        assert_eq!(answer.stopped, Stopped::TimeBudget);
        assert!((*most_s..=*most_s + 1.0).contains(&answer.trial_s), "{} s", answer.trial_s);
        assert_eq!(answer.goals[0].censored, Some(Cap::TimeBudget), "{answer:?}");
    }
}

#[test]
fn a_device_faster_than_the_range_is_censored_there() {
    let device = Device { packet_per_s: 9_000, buffer_packets: 10, size_byte: 60 };
    let range = Range { least: 1, most: 2_000 };
    for found in
        [answer(&mut binary(range), |trial| device.offer(trial)), answer(&mut mlr(range), |trial| device.offer(trial))]
            .iter()
            .flat_map(|answer| &answer.goals)
    {
        assert_eq!(
            (found.lower_packet_per_s, found.censored, found.upper_packet_per_s),
            (Some(2_000), Some(Cap::Range), None)
        );
    }
}

#[test]
fn a_generator_that_cannot_go_on_censors_the_answer_and_its_void_trials_are_no_failures() {
    let device = Device { packet_per_s: 9_000, buffer_packets: 10, size_byte: 60 };
    let range = Range { least: 1, most: 8_000 };
    let slow = |trial: Trial| {
        let seen = device.offer(trial);
        let void = (trial.packet_per_s > 3_000).then_some(Void::GeneratorShort { achieved_packet_per_s: 3_000.0 });
        Seen { void, ..seen }
    };
    let mut both: [Box<dyn Search>; 2] = [Box::new(binary(range)), Box::new(mlr(range))];
    for search in &mut both {
        let answer = answer(search.as_mut(), slow);
        let found = answer.goals[0];
        assert_eq!((found.censored, found.lower_packet_per_s), (Some(Cap::Generator), Some(2_910)), "{answer:?}");
        assert!(answer.void_trials >= 5);
    }
}

#[test]
fn a_device_that_forwards_nothing_has_no_throughput() {
    let nothing = |trial: Trial| Seen { sent: trial.packet_per_s.div_ceil(10), received: 0, void: None };
    let range = Range { least: 10, most: 100_000 };
    let mut both: [Box<dyn Search>; 2] = [Box::new(binary(range)), Box::new(mlr(range))];
    for search in &mut both {
        for found in answer(search.as_mut(), nothing).goals {
            assert_eq!((found.throughput_packet_per_s, found.regular, found.censored), (None, false, None));
        }
    }
}

#[test]
fn every_third_trial_void_changes_the_time_and_not_the_answer() {
    let device = Device { packet_per_s: 4_000, buffer_packets: 10, size_byte: 60 };
    let range = Range { least: 1, most: 12_000 };
    let mut number = 0;
    let disturbed = |trial: Trial| {
        number += 1;
        let seen = device.offer(trial);
        if number % 3 == 0 { Seen { received: 0, void: Some(Void::Busy { share: 0.5 }), ..seen } } else { seen }
    };
    let (plain, void) = (answer(&mut mlr(range), |trial| device.offer(trial)), answer(&mut mlr(range), disturbed));
    assert_eq!(plain.goals, void.goals);
    assert!(void.void_trials > 0 && void.trial_s > plain.trial_s && void.trials == plain.trials);
}

#[test]
fn trials_that_others_disturb_cost_time_only_where_they_lose() {
    let device = Device { packet_per_s: 4_000, buffer_packets: 10, size_byte: 60 };
    let range = Range { least: 1, most: 12_000 };
    let busy = |trial: Trial| Seen { void: Some(Void::Busy { share: 0.5 }), ..device.offer(trial) };
    let (plain, all_busy) = (answer(&mut mlr(range), |trial| device.offer(trial)), answer(&mut mlr(range), busy));
    assert_eq!((&plain.goals, plain.trials), (&all_busy.goals, all_busy.trials));
    assert_eq!(all_busy.disturbed_trials, all_busy.trials, "each of them");
    let lost = all_busy.void_trials / 4;
    assert!(lost > 0 && lost < plain.trials && all_busy.void_trials % 4 == 0, "{all_busy:?}");
}

#[test]
fn settings_that_cannot_be_are_refused_in_words() {
    let range = Range { least: 1, most: 100 };
    let with =
        |goal: Goal| Mlrsearch::new(MlrSettings { goals: vec![goal], ..MlrSettings::default() }, range).map(|_| ());
    for (found, word) in [
        (with(Goal { loss_ratio: 1.0, ..Goal::default() }), "loss ratio is 1: use "),
        (with(Goal { width: 0.0, ..Goal::default() }), "width is 0: use "),
        (with(Goal { sum_ns: 1, ..Goal::default() }), "sum of trials"),
        (
            Mlrsearch::new(MlrSettings { goals: vec![], ..MlrSettings::default() }, range).map(|_| ()),
            "goals is 0: use ",
        ),
        (
            BinarySearch::new(BinarySettings::default(), Range { least: 5, most: 5 }).map(|_| ()),
            "greatest load is 5: use ",
        ),
    ] {
        let error = found.expect_err(word).to_string();
        assert!(error.contains(word), "{error}");
    }
}
