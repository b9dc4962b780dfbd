//! `vtare rtt --live`: losses, percentiles and the complementary distribution of the round trips as they come, drawn
//! over each other on a terminal. Text goes in and out; only [`Screen`] writes.

use std::io::{IsTerminal as _, Write as _};

use vtare_units::figures::LogHistogram;

use super::aggregate::Look;
use crate::table::{Table, percent, time};

/// The shares of round trips for which the time is shown that they exceed.
const EXCEEDED_BY: [(u64, &str); 6] = [
    (2, "1 in 2"),
    (10, "1 in 10"),
    (100, "1 in 100"),
    (1_000, "1 in 1,000"),
    (10_000, "1 in 10,000"),
    (100_000, "1 in 100,000"),
];
/// Columns of the longest bar.
const BAR: f64 = 40.0;

/// The view at one time: lines of text, each ended.
pub(super) fn frame(label: &str, slots: u64, look: &Look) -> String {
    let lost = look.sent.saturating_sub(look.received + look.open);
    let share = (look.sent > look.open).then(|| lost as f64 / (look.sent - look.open) as f64);
    let mut text = format!(
        "{label}: {slots} scheduled, {} sent, {} answered, {lost} lost ({}), {} duplicates\n",
        look.sent,
        look.received,
        percent(share),
        look.duplicate
    );
    let mut table = Table::new(&["round trips", "median", "p99", "p99.9", "max", "n"], 1);
    for (name, figures) in [("since the last line", &look.interval), ("since the start", &look.whole.figures())] {
        let times = [figures.median, figures.p99, figures.p999, figures.max].map(time);
        table.row([name.to_owned()].into_iter().chain(times).chain([figures.n.to_string()]).collect());
    }
    text.push_str(&table.render());
    text + &distribution(&look.whole)
}

/// Which time is exceeded by 1 in N round trips, with a bar that is longer by the same for each factor of time.
fn distribution(whole: &LogHistogram) -> String {
    let middles = whole.middles();
    let total: u64 = middles.iter().map(|(_, count)| count).sum();
    let exceeded_by = |one_in: u64| {
        // Fewer than ten values beyond it are no quantile.
        let most = total / one_in;
        let mut beyond = 0;
        let above = middles.iter().rev().find(|(_, count)| {
            beyond += count;
            beyond > most
        });
        above.map(|(value, _)| *value as f64).filter(|_| most >= 10)
    };
    let known: Vec<(&str, f64)> =
        EXCEEDED_BY.iter().filter_map(|(one_in, name)| Some((*name, exceeded_by(*one_in)?))).collect();
    let (Some((least, _)), Some((_, longest))) = (middles.first(), known.last()) else { return String::new() };
    let (least, longest) = ((*least as f64).max(1.0), longest.max(1.0));
    let bar = |value: f64| match longest > least {
        true => "#".repeat(((value.max(least) / least).ln() / (longest / least).ln() * BAR).round() as usize),
        false => String::new(),
    };
    let line = |(name, value): &(&str, f64)| {
        format!("{name:>12} above {:>8}  {}", time(Some(*value)), bar(*value)).trim_end().to_owned() + "\n"
    };
    known.iter().map(line).collect()
}

/// The lines on stderr that are written over each other; nothing where that is no terminal.
#[derive(Debug, Default)]
pub(super) struct Screen {
    lines: usize,
}

impl Screen {
    /// Draws a view in the place of the last one.
    pub(super) fn draw(&mut self, text: &str) {
        let mut out = std::io::stderr().lock();
        if !out.is_terminal() {
            return;
        }
        let up = if self.lines > 0 { format!("\x1b[{}A", self.lines) } else { String::new() };
        let body: String = text.lines().map(|line| format!("\x1b[2K{line}\n")).collect();
        // Below may be a longer view of before.
        let _ = out.write_all(format!("{up}{body}\x1b[0J").as_bytes());
        let _ = out.flush();
        self.lines = text.lines().count();
    }
}

#[cfg(test)]
mod tests {
    use vtare_units::figures::Figures;

    use super::*;

    #[test]
    fn losses_percentiles_and_what_is_exceeded_are_shown() {
        let mut whole = LogHistogram::default();
        whole.add_many(10_000, 900);
        whole.add_many(100_000, 90);
        whole.add_many(1_000_000, 10);
        let look = Look { sent: 1_020, received: 1_000, open: 10, duplicate: 1, interval: Figures::default(), whole };
        let text = frame("rtt 10.0.0.2", 1_030, &look);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "rtt 10.0.0.2: 1030 scheduled, 1020 sent, 1000 answered, 10 lost (0.99 %), 1 duplicates");
        assert!(lines[2].starts_with("since the last line ") && lines[3].ends_with("1000"), "{text}");
        assert!(lines[4].starts_with("      1 in 2 above  10.0 us"), "{text}");
        assert_eq!(lines.len(), 7, "of 1,000 no 1 in 1,000: {text}");
        assert_eq!(lines[6].matches('#').count(), 40, "{text}");
    }

    #[test]
    fn without_round_trips_there_is_no_distribution() {
        assert_eq!(distribution(&LogHistogram::default()), "");
    }
}
