//! The progress line: on stderr, on a terminal only.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

/// A length of time for people, no shorter than it is, as the lab writes it: `42 s`, `3 min 05 s`, `2 h 07 min`.
pub(crate) fn duration(seconds: f64) -> String {
    let whole = seconds.ceil() as u64;
    match whole {
        0..60 => format!("{whole} s"),
        60..3_600 => format!("{} min {:02} s", whole / 60, whole % 60),
        _ => format!("{} h {:02} min", whole / 3_600, whole % 3_600 / 60),
    }
}

/// A progress line; it vanishes when dropped.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    pub(crate) fn start(label: &str, total: u64) -> Self {
        let target = if std::io::stderr().is_terminal() {
            ProgressDrawTarget::stderr_with_hz(4)
        } else {
            ProgressDrawTarget::hidden()
        };
        let left = |state: &ProgressState, out: &mut dyn std::fmt::Write| {
            // The line is drawn again in a quarter of a second.
            let _ = out.write_str(&duration(state.eta().as_secs_f64()));
        };
        // As the lab's: vtare/terminal/progress.py.
        let style = ProgressStyle::with_template("{msg} [{bar:24}] {percent:>3} % {left} left")
            .expect("the template is a constant that parses")
            .with_key("left", left)
            .progress_chars("=> ");
        let bar = ProgressBar::with_draw_target(Some(total), target).with_style(style).with_message(label.to_owned());
        Self(bar)
    }

    /// One that nobody sees.
    pub(crate) fn hidden() -> Self {
        Self(ProgressBar::hidden())
    }

    /// Shows that `position` of the total is done. Draws at most four times a second.
    pub(crate) fn set(&self, position: u64) {
        self.0.set_position(position);
    }

    /// Changes the label.
    pub(crate) fn label(&self, label: &str) {
        self.0.set_message(label.to_owned());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_time_that_is_left_is_written_as_the_lab_writes_it() {
        let shown = [0.4, 42.0, 185.0, 7_620.0].map(super::duration);
        assert_eq!(shown, ["1 s", "42 s", "3 min 05 s", "2 h 07 min"]);
    }
}
