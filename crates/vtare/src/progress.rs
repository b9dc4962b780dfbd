//! The progress line: on stderr, on a terminal only.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A progress line; it vanishes when dropped.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    pub(crate) fn start(label: &str, total: u64) -> Self {
        let target = if std::io::stderr().is_terminal() {
            ProgressDrawTarget::stderr_with_hz(4)
        } else {
            ProgressDrawTarget::hidden()
        };
        let style = ProgressStyle::with_template("{msg} [{bar:30}] {percent:>3} % {eta} left")
            .expect("the template is a constant that parses")
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
