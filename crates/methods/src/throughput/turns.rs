use super::{Answer, Search, Seen, Step, Trial};

/// Searches that take turns, a trial each, so that what the machine does meanwhile meets all of them alike.
///
/// Made one after another, each search would answer for its own stretch of time: on a machine that others share, whose
/// CPUs are fast for some seconds and slow for the next, answers would differ by that, and not by what is tested. In
/// turn, the trials at each load lie as far apart in time as can be.
pub struct Interleaved {
    searches: Vec<Option<Box<dyn Search>>>,
    turn: usize,
}

/// What is next.
#[derive(Clone, Debug, PartialEq)]
pub enum NextTrial {
    /// Offer this for the search of that number, then call [`Interleaved::observe`] with what came of it.
    Trial(usize, Trial),
    /// The search of that number has ended.
    Done(usize, Answer),
    /// All have.
    Over,
}

impl Interleaved {
    /// Of these searches, each independent of the others.
    #[must_use]
    pub fn new(searches: Vec<Box<dyn Search>>) -> Self {
        Self { searches: searches.into_iter().map(Some).collect(), turn: 0 }
    }

    /// What to do now.
    pub fn step(&mut self) -> NextTrial {
        let many = self.searches.len();
        for number in (0..many).map(|by| (self.turn + by) % many) {
            let Some(search) = &mut self.searches[number] else { continue };
            self.turn = number;
            return match search.step() {
                Step::Trial(trial) => NextTrial::Trial(number, trial),
                Step::Done(answer) => {
                    self.searches[number] = None;
                    NextTrial::Done(number, answer)
                }
            };
        }
        NextTrial::Over
    }

    /// What became of the trial of the last step; then it is the next search's turn.
    pub fn observe(&mut self, seen: &Seen) {
        if let Some(search) = self.searches.get_mut(self.turn).and_then(Option::as_mut) {
            search.observe(seen);
            self.turn += 1;
        }
    }

    /// Ends those that have not ended, for want of time.
    pub fn break_off(&mut self) -> Vec<(usize, Answer)> {
        let open = self.searches.iter_mut().enumerate();
        open.filter_map(|(number, search)| Some((number, search.take()?.broken_off()))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::throughput::{Found, Stopped};

    /// Wants `.1` trials of the load `.0`, which identifies the search.
    struct Counting(u64, u64);

    impl Search for Counting {
        fn step(&mut self) -> Step {
            if self.1 == 0 {
                Step::Done(self.interim())
            } else {
                Step::Trial(Trial { packet_per_s: self.0, duration_ns: 1 })
            }
        }

        fn observe(&mut self, _seen: &Seen) {
            self.1 -= 1;
        }

        fn interim(&self) -> Answer {
            Answer { goals: vec![Found::default()], trials: self.0, ..Answer::default() }
        }

        fn broken_off(&self) -> Answer {
            Answer { stopped: Stopped::TimeBudget, ..self.interim() }
        }
    }

    fn three() -> Interleaved {
        Interleaved::new([(10, 1), (20, 3), (30, 2)].map(|(load, trials)| Box::new(Counting(load, trials)) as _).into())
    }

    const SEEN: Seen = Seen { sent: 1, received: 1, void: None };

    #[test]
    fn each_search_has_its_turn_until_it_has_ended() {
        let (mut turns, mut order) = (three(), Vec::new());
        loop {
            match turns.step() {
                NextTrial::Trial(number, trial) => {
                    assert_eq!(trial.packet_per_s, 10 * (number as u64 + 1));
                    assert_eq!(turns.step(), NextTrial::Trial(number, trial), "until it is observed");
                    order.push(number);
                    turns.observe(&SEEN);
                }
                NextTrial::Done(number, answer) => {
                    assert_eq!(answer.trials, 10 * (number as u64 + 1));
                    order.push(100 + number);
                }
                NextTrial::Over => break,
            }
        }
        assert_eq!(order, [0, 1, 2, 100, 1, 2, 1, 102, 101]);
        assert_eq!((turns.step(), turns.break_off()), (NextTrial::Over, vec![]));
    }

    #[test]
    fn those_that_have_not_ended_are_broken_off() {
        let mut turns = three();
        for _ in 0..3 {
            let _ = turns.step();
            turns.observe(&SEEN);
        }
        assert!(matches!(turns.step(), NextTrial::Done(0, _)));
        let broken = turns.break_off();
        assert_eq!(
            broken.iter().map(|(number, answer)| (*number, answer.stopped)).collect::<Vec<_>>(),
            [(1, Stopped::TimeBudget), (2, Stopped::TimeBudget)]
        );
        assert_eq!(turns.step(), NextTrial::Over);
        assert_eq!(Interleaved::new(vec![]).step(), NextTrial::Over);
    }
}
