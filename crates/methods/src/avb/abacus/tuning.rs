//! Every number of the method: its unit, why it is there, and what half and double of it do.
//!
//! `Half` and `double` are measured, by `bench/avb/sensitivity --write`, on paths and troubles that nothing was set on:
//! 200 paths, of each family in turn (`--family mixed`, seed 7106550123), and 68 troubles, one seed each. Unchanged,
//! 31.8 % of the estimates are off by more than 3 %, cover 94.4 %, 0.5 % beyond three half-widths, 1996 kB, 15 troubles
//! missed and off by 2.1 %. Each change of a number makes some paths other trains: on 200 paths 2 % more or less are
//! off by chance. Thresholds in other files are counted as well: the test below has the rule.

// ---- The account
/// Unit: standard errors. Half of the interval: 95 % of a normal error. Trains that differ by less agree; a value that
/// approaches is taken for that much higher; a delay is no higher than its neighbours by more, and losses that follow
/// it by more come from a queue. The same number of standard deviations of other queues' delays may be taken for a
/// queue of the tight link; a run that follows has met a change where it is off by twice that.
/// Half: cover 95.5 %, beyond 1.0 %; double: off 33.8 %, cover 94.9 %, beyond 1.0 %.
pub(super) const SIDES: f64 = 2.0;
/// Unit: share of the value. What no measurement is nearer than: stamps, headers, rounding.
/// Half: cover 94.9 %; double: cover 95.5 %.
pub(super) const LEAST_ERROR: f64 = 0.003;
/// Unit: typical steps. A step of the delay that is larger is one pause and is cut to it, so that it does not make
/// all points look noisy.
/// Half: cover 94.9 %, cover of troubles 91.2 %; double: nothing.
pub(super) const PAUSE_STEPS: f64 = 12.0;
/// Unit: packets of the tight link. What other links' queues differ by between two ends where cross traffic is even.
/// Half: off 34.3 %, cover 94.9 %, beyond 0.0 %; double: off 34.3 %, cover 96.0 %, beyond 1.0 %, 13 troubles missed.
pub(super) const OTHERS_EVEN: f64 = 0.3;
/// Unit: packets for each unit of dispersion. The same, where cross traffic comes as Poisson's does (dispersion 1) or
/// in bursts.
/// Half: off 32.8 %, cover 96.0 %, troubles off by 3.6 %, cover of troubles 91.2 %, intervals of troubles 29 %; double:
/// cover 97.0 %, intervals of troubles 41 %.
pub(super) const OTHERS_BURSTY: f64 = 2.5;
/// Unit: standard deviations. This part of what other links' queues differ by may hide that the queue was empty.
/// Half: off 33.8 %, beyond 1.0 %, troubles off by 1.0 %, cover of troubles 91.2 %, intervals of troubles 29 %; double:
/// cover 97.5 %, beyond 1.0 %, intervals of troubles 28 %.
pub(super) const BLUR: f64 = 1.0;
/// Unit: share of the time. Behind a queue that a packet found empty it was empty for this part of what it may have
/// been; where the packet found a queue, for the rest.
/// Half: off 33.8 %, troubles off by 1.5 %; double: troubles off by 2.7 %, cover of troubles 94.1 %.
pub(super) const IDLE_EMPTY: f64 = 0.8;
/// Unit: places. Where an account may begin or end: the lowest delay of each of this number of parts of a train. An end
/// is the mean over no more than such a part, a delay grew where it did between the first and the last two of them, and
/// a rate is sustained where it is in each of them.
/// Half: beyond 1.5 %, cover of troubles 91.2 %; double: off 34.3 %, cover 94.9 %, beyond 1.0 %.
pub(super) const PARTS: usize = 10;
/// Unit: points, stamps or packets. Fewer show neither a slope nor a rate, and fewer losses no full queue; fewer than
/// half of them show nothing. Bursts of cross traffic are looked for in half, once and twice this number of blocks of a
/// train.
/// Half: cover 96.5 %, beyond 0.0 %, 17 troubles missed, troubles off by 2.5 %; double: cover 96.4 %, beyond 0.0 %,
/// troubles off by 3.6 %.
pub(super) const LEAST_POINTS: usize = 8;
/// Unit: share. From here on a rate is far from another: a stream that approaches is this much faster than the value,
/// one at a policer at least this much faster than what it leaves; a slope that corrects a rate by more is assumed to
/// be other links' too; a ratio nearer to 1 is that of the narrow link itself. By less packets came as fast as they
/// were sent, or as the link lets them, with nothing between them; lost none to a policer or a full queue; and waited
/// in no queue. The first guess stays this much below what the first train shows.
/// Half: cover 95.5 %, troubles off by 3.7 %, cover of troubles 91.2 %, intervals of troubles 31 %; double: off 34.0 %,
/// cover 95.4 %, beyond 1.5 %, troubles off by 2.9 %, cover of troubles 91.2 %.
pub(super) const FAR: f64 = 0.1;
/// Unit: share of the slope. Far above the value other links are overloaded as well: this part of a slope may be
/// theirs.
/// Half: troubles off by 3.4 %; double: off 32.8 %, cover 96.0 %.
pub(super) const FAR_ERROR: f64 = 0.2;
/// Unit: probability. What each end of the interval leaves out of the ratios that the tight link may have.
/// Half: cover 95.5 %, intervals of troubles 39 %; double: cover 91.4 %, beyond 1.0 %, intervals of troubles 29 %.
pub(super) const OUTSIDE: f64 = 0.025;

// ---- Evidence of all trains
/// Unit: share of the capacity. No capacity is known better, whatever shows it.
/// Half: off 32.8 %, cover 94.9 %; double: nothing.
pub(super) const CAPACITY_ERROR: f64 = 0.03;
/// Unit: capacities. Probes that left the link faster show that it is faster than gaps did. A train that shows more
/// free than this is wrong, and so are all before it; none is sent faster. A head comes this much faster than the value
/// at least.
/// Half: off 49.7 %, cover 95.9 %, beyond 1.0 %, 31 troubles missed, troubles off by 8.2 %, cover of troubles 80.9 %,
/// intervals of troubles 40 %; double: off 29.8 %, cover 96.0 %, beyond 0.0 %, cover of troubles 91.2 %.
pub(super) const OUTGROWN: f64 = 1.15;
/// Unit: share of the rate. A train whose slope corrects it by more was at a wrong rate; the next one is not much
/// longer.
/// Half: off 32.8 %; double: troubles off by 2.5 %.
pub(super) const ASTRAY: f64 = 0.15;

// ---- The first train
/// Unit: bit/s. Below this capacity packets are no larger than `SMALL`.
/// Half: nothing; double: nothing.
pub(super) const SMALL_BELOW: f64 = 5e8;
/// Unit: bytes. Large packets are few at low rates.
/// Half: nothing; double: nothing.
pub(super) const SMALL: u32 = 1500;

// ---- The next train
/// Unit: times. Room for what is not known well: a packet's time is at least this multiple of what the sender needs for
/// a call, the next train this multiple of what would make the interval narrow, the head at a policer this multiple of
/// its bucket.
/// Half: cover 94.9 %; double: cover 93.9 %, beyond 0.0 %.
pub(super) const ROOM: f64 = 1.5;
/// Unit: share. By this a rate is hardly faster: a measuring stream is that much faster than the value, which holds the
/// queue filled. What is smaller is next to nothing: a time in which the queue may have been empty, a delay that grew
/// by it, a value to plan for, cross traffic of a busy link, odds to pass a policer, what is left of a limit.
/// Half: off 30.8 %, cover 97.0 %; double: beyond 1.5 %.
pub(super) const LITTLE: f64 = 0.02;
/// Unit: standard deviations. The head fills the queue for this multiple of what the cross traffic may do in the
/// train's time.
/// Half: off 29.8 %, beyond 1.0 %, 21 troubles missed, troubles off by 1.4 %, cover of troubles 91.2 %; double: off
/// 33.3 %, cover 96.5 %, troubles off by 1.5 %, intervals of troubles 38 %.
pub(super) const PRIME: f64 = 2.5;
/// Unit: times. More for each train that emptied it.
/// Half: cover 92.9 %, 13 troubles missed, cover of troubles 91.2 %; double: off 33.3 %, cover 94.9 %, troubles off by
/// 2.4 %.
pub(super) const PRIME_MORE: f64 = 1.4;
/// Unit: s. The head fills the queue to this at most: routers hold about 100 ms.
/// Half: nothing; double: cover 93.9 %.
pub(super) const MOST_QUEUE_S: f64 = 0.1;
/// Unit: packets. What is uncertain at the ends of a train: single packets and clumps of them. Heads fill the queue by
/// this beyond what they must; more than these that pass at once are a token bucket's; fewer show nothing of a policer.
/// Half: off 35.4 %, cover 94.9 %, troubles off by 2.5 %; double: off 33.8 %, cover 93.4 %, beyond 2.0 %, 17 troubles
/// missed, intervals of troubles 25 %.
pub(super) const FEW_PACKETS: f64 = 4.0;
/// Unit: share of the head. The part of a head that is held to stay in the queue, at least.
/// Half: cover 96.0 %, cover of troubles 91.2 %, intervals of troubles 29 %; double: cover 97.0 %, 18 troubles missed,
/// troubles off by 1.5 %.
pub(super) const LEAST_KEPT: f64 = 0.35;
/// Unit: services of the head. Behind a head the account begins when the tight link has sent this multiple of it: links
/// before it have drained.
/// Half: off 28.3 %, cover 97.0 %, beyond 0.0 %, 18 troubles missed, troubles off by 3.5 %; double: cover 97.0 %,
/// troubles off by 2.4 %.
pub(super) const SETTLE: f64 = 1.2;
/// Unit: times. The next train behind one that emptied the queue, whose rate was far off or whose interval was wide is
/// longer by this at most.
/// Half: cover 95.5 %, 17 troubles missed, troubles off by 1.8 %; double: off 30.3 %, cover 96.5 %, 17 troubles missed.
pub(super) const LONGER: f64 = 6.0;
/// Unit: share of what is left. Such a train takes this of the bytes and the time at most, and so does a head.
/// Half: off 30.3 %, cover 93.9 %, 12 troubles missed; double: off 30.8 %, cover 94.9 %, beyond 1.0 %, 13 troubles
/// missed, troubles off by 2.5 %.
pub(super) const REST_SHARE: f64 = 0.3;
/// Unit: share of what is left. Any other takes this; and of the time this part of that, since it has to come back.
/// What is left of a train that would be shorter than the last one by more is not worth sending.
/// Half: off 34.3 %, cover 94.9 %, 17 troubles missed, troubles off by 2.6 %; double: off 29.3 %.
pub(super) const LAST_SHARE: f64 = 0.85;
/// Unit: times. Each burst has this multiple of the packets of the one before, so what lies behind the first `1 - 1 /
/// MORE` of it comes behind any token bucket. By this the bytes may grow: on links above 600 Mbit/s, as the link
/// carries more in the time that hosts stall; and for trains behind the bursts that found a token bucket, which may
/// empty it this often where the limit of bytes is no strict one. Without any, values at 10 Gbit/s are up to 5 % too
/// high (`bench/avb/buckets`).
/// Half: beyond 1.0 %, 17 troubles missed, troubles off by 2.8 %; double: cover of troubles 94.1 %.
pub(super) const MORE: u64 = 4;
/// Unit: trains. Ends a measurement whose trains take neither bytes nor time.
/// Half: nothing; double: nothing.
pub(super) const MOST_TRAINS: u32 = 1000;

// ---- What is no queue
/// Unit: rank. Losses at delays above this mean rank come from a full queue.
/// Half: cover 96.5 %, beyond 0.0 %; double: cover 92.9 %, beyond 1.0 %.
pub(super) const LOST_HIGH: f64 = 0.85;
/// Unit: share. After a train overflowed the queue, the next train puts at most this share of those bytes into it, and
/// its rate is at most this share of the rate before.
/// Half: off 32.8 %, cover 95.5 %; double: off 30.4 %, cover 95.3 %, beyond 0.0 %.
pub(super) const OVERFLOWED: f64 = 0.7;
/// Unit: services of a packet. Packets that came closer waited behind the tight link; below 1, since it is not known
/// well.
/// Half: cover 95.5 %; double: off 41.4 %, cover 95.9 %, 28 troubles missed, troubles off by 2.5 %, cover of troubles
/// 82.4 %, intervals of troubles 29 %.
pub(super) const HELD_SHARE: f64 = 0.6;
/// Unit: ns. Trains that were delayed as a whole waited for no less; without a measuring train, longer waits refuse the
/// answer.
/// Half: nothing; double: nothing.
pub(super) const HELD_NS: f64 = 300_000.0;
/// Unit: packets. A train that measures a policer has this number behind its head, at least.
/// Half: off 30.8 %, cover 91.9 %, beyond 1.0 %; double: off 29.8 %, cover 95.5 %, troubles off by 2.4 %.
pub(super) const POLICE_LEAST: f64 = 200.0;
/// Unit: packets. Probes and cross traffic together come faster than the policer's rate by this over the packets that
/// its bucket holds: a bucket that runs full is wasted.
/// Half: cover 93.9 %; double: nothing.
pub(super) const POLICE_NEAR: f64 = 2.0;
/// Unit: share of the policer's rate. By this they come faster at most, and in one train of four.
/// Half: off 30.8 %, 13 troubles missed; double: cover 91.4 %, beyond 1.0 %, troubles off by 2.4 %.
pub(super) const POLICE_FAR: f64 = 0.5;
/// Unit: share of the policer's rate. And by this in one train of four: hardly any cross traffic passes, so the policer
/// is no faster than that above what passes.
/// Half: cover 91.9 %, beyond 1.0 %; double: off 32.8 %.
pub(super) const POLICE_HEAVY: f64 = 3.0;
/// Unit: share of what passes. No train shows it better: bursts, and the bucket that fills between them.
/// Half: cover 93.4 %; double: cover 94.9 %, beyond 1.0 %, troubles off by 2.4 %.
pub(super) const POLICE_BURSTS: f64 = 0.035;
/// Unit: share. The odds of probes to pass are lower by this times `X/P`, beside even cross traffic.
/// Half: cover 93.9 %, 12 troubles missed; double: cover 94.9 %, troubles off by 2.4 %.
pub(super) const POLICE_EVEN: f64 = 0.8;
/// Unit: packets. Variance over mean of bursty cross traffic; of long bursts it is the square of this.
/// Half: off 32.8 %, cover 92.4 %, beyond 1.0 %; double: cover 93.9 %.
pub(super) const POLICE_BURSTY: f64 = 7.0;
/// Unit: share. How far what a bucket wastes may be off.
/// Half: cover 93.9 %; double: cover 93.4 %.
pub(super) const POLICE_WASTE: f64 = 0.5;

// ---- The narrow link's capacity
/// Unit: share of the gap. Neighbours closer than this in the mode count as the mode's.
/// Half: cover 95.5 %; double: off 33.3 %, cover 94.9 %.
pub(super) const MODE_NEAR: f64 = 0.15;
/// Unit: share of the gap. A place is another one below this.
/// Half: off 30.8 %, cover 93.9 %; double: does not end.
pub(super) const MODE_CLEAR: f64 = 0.75;
/// Unit: share of neighbours. Another place has this number at least.
/// Half: nothing; double: off 30.8 %.
pub(super) const MODE_LEAST_PART: f64 = 0.06;
/// Unit: times. Stamps this much closer than arrivals are of packets that were handed over together, and stamps of more
/// packets than this hide the gaps between them.
/// Half: cover 94.9 %; double: troubles off by 3.0 %, cover of troubles 91.2 %.
pub(super) const CLUMPED: f64 = 3.5;
/// Unit: share of packets. Where more were, gaps are those of the hand-over, and the link is known from a whole
/// train.
/// Half: nothing; double: nothing.
pub(super) const CLUMPED_SHARE: f64 = 0.15;
/// Unit: share of the time that the link takes. A token bucket let those through that waited less, and came sooner by
/// this.
/// Half: off 32.8 %, cover 93.9 %, beyond 1.0 %; double: cover 93.9 %, beyond 1.0 %.
pub(super) const CREDIT: f64 = 0.2;
/// Unit: packets. Behind a bucket the first train is to have this number.
/// Half: nothing; double: off 32.8 %.
pub(super) const TAIL_PACKETS: f64 = 64.0;
/// Unit: share of the capacity. The error of a capacity from gaps of which no two are alike, from stamps that hide
/// them, or from a bound; and of one from a single pair among others.
/// Half: nothing; double: nothing.
pub(super) const SCATTERED_ERROR: f64 = 0.3;

// ---- The tight link
/// Unit: ratio. The tight link's capacity over the narrow one's, at most, and at least its inverse: links that are
/// overloaded together act as one with less capacity than any.
/// Half: cover 93.9 %; double: off 30.3 %, cover 95.5 %.
pub(super) const RATIO_MOST: f64 = 16.0;
/// Unit: probability. That the tight link is the narrow one, before any train. Where another one is as likely as that,
/// more bytes are spent.
/// Half: cover 93.4 %, troubles off by 2.4 %; double: cover 93.4 %, beyond 1.0 %, intervals of troubles 27 %.
pub(super) const RATIO_SAME: f64 = 0.4;
/// Unit: power. Ratios are the rarer the larger they are.
/// Half: cover 94.9 %; double: off 33.8 %, cover 93.4 %, intervals of troubles 29 %.
pub(super) const RATIO_STEEP: f64 = 2.0;

#[cfg(test)]
mod tests {
    use std::path::Path;

    /// Lines of this file, with those of each number's comment.
    fn numbers() -> Vec<(String, String)> {
        let text = include_str!("tuning.rs");
        let mut found = Vec::new();
        let mut comment = String::new();
        for line in text.lines().take_while(|line| !line.starts_with("#[cfg(test)]")) {
            if let Some(words) = line.strip_prefix("/// ") {
                comment = format!("{comment} {words}");
            } else if let Some((name, _)) = line.strip_prefix("pub(super) const ").and_then(|it| it.split_once(':')) {
                found.push((name.to_owned(), std::mem::take(&mut comment)));
            }
        }
        found
    }

    /// Whether a literal is no threshold: none, one, two and a half; 8, the bits of a byte; a power of ten from a
    /// thousand on, which changes a unit, or below a thousandth, which keeps something from being 0.
    fn is_plain(literal: &str) -> bool {
        let digits: String = literal.chars().filter(|&letter| letter != '_').collect();
        let value: f64 = digits.trim_end_matches("f64").trim_end_matches("u32").parse().expect("it is a number");
        let bits = if (value.log2() - 3.0).abs() < 1e-9 || digits.starts_with("8e") { value / 8.0 } else { value };
        let power = bits.log10();
        [0.0, 0.5, 1.0, 2.0].contains(&bits) || (power.abs() > 2.5 && (power - power.round()).abs() < 1e-9)
    }

    /// The literals of a line of code, but for fields of tuples and lengths of arrays.
    fn literals(line: &str) -> Vec<String> {
        let code = line.split("//").next().unwrap_or("");
        let code: String = code.split('"').step_by(2).collect::<Vec<_>>().join("_");
        let letters: Vec<char> = code.chars().collect();
        let (mut out, mut at) = (Vec::new(), 0);
        while at < letters.len() {
            let before: String = letters[at.saturating_sub(2)..at].iter().collect();
            let begins = letters[at].is_ascii_digit()
                && !before.ends_with(|letter: char| letter.is_alphanumeric() || letter == '_')
                && (before == ".." || !before.ends_with('.'));
            let from = at;
            at += 1;
            while begins && at < letters.len() {
                let fraction = letters[at] == '.' && letters.get(at + 1).is_some_and(char::is_ascii_digit);
                let power = letters[at] == '-' && letters[at - 1] == 'e';
                if !(letters[at].is_alphanumeric() || letters[at] == '_' || fraction || power) {
                    break;
                }
                at += 1;
            }
            if begins && !(before == "; " && letters.get(at) == Some(&']')) {
                out.push(letters[from..at].iter().collect());
            }
        }
        out
    }

    /// The thresholds of all files of the method that have no name here. What a user may set stands in `settings.rs`,
    /// and the statement or the function below a comment `//=`, which names a source, is a formula.
    fn inline() -> Vec<String> {
        let mut found = Vec::new();
        let room = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/avb/abacus");
        let mut files: Vec<_> = room.read_dir().expect("it is there").map(|file| file.expect("it is there")).collect();
        files.sort_by_key(std::fs::DirEntry::file_name);
        for file in files {
            let name = file.file_name().into_string().expect("plain names");
            if ["tuning.rs", "settings.rs"].contains(&name.as_str()) {
                continue;
            }
            let text = std::fs::read_to_string(file.path()).expect("it is a file");
            let mut formula = None;
            for line in text.lines().take_while(|line| !line.starts_with("#[cfg(test)]")) {
                let indent = line.len() - line.trim_start().len();
                if line.trim_start().starts_with("//=") {
                    formula = Some(indent);
                } else if formula.is_none() {
                    let named = literals(line).into_iter().filter(|literal| !is_plain(literal));
                    found.extend(named.map(|literal| format!("{name}: {literal} in {}", line.trim())));
                } else if formula == Some(indent) && line.ends_with([';', '}']) {
                    formula = None;
                }
            }
        }
        found
    }

    #[test]
    fn thresholds_are_told_from_units_and_fields() {
        assert_eq!(literals("let it = x.0 * 0.25e9 + 7_u32 as f64 - a1; // 33"), ["0.25e9", "7_u32"]);
        assert_eq!(literals("for i in 0..50 { all([0.0; 4], \"{:.4}\") }"), ["0", "50", "0.0"]);
        assert!(["0", "1", "2.0", "0.5", "8", "8e9", "1_000", "1e-3", "2_u32"].into_iter().all(is_plain));
        assert!(["3", "10", "0.1", "12.0_f64", "1.05e9", "0.9", "64"].into_iter().all(|literal| !is_plain(literal)));
    }

    #[test]
    fn there_are_60_numbers_at_most_each_with_its_unit_its_reason_and_its_sensitivity() {
        let found = numbers();
        // How finely probabilities are kept is the length of arrays.
        assert_eq!(inline(), ["tight.rs: 61 in pub(super) const CELLS: usize = 61;"]);
        assert!((40..60).contains(&found.len()), "{}", found.len());
        for (name, comment) in found {
            for part in [" Unit: ", " Half: ", "; double: "] {
                assert_eq!(comment.matches(part).count(), 1, "{name}:{comment} (bench/avb/sensitivity --write)");
            }
            let reason = comment.split(" Half: ").next().and_then(|it| it.split_once(". "));
            assert!(
                !comment.contains("not measured"),
                "{name}:{comment} (bench/avb/sensitivity --only {name} --write)"
            );
            assert!(reason.is_some_and(|(_, why)| why.len() > 10), "{name}:{comment}");
        }
    }
}
