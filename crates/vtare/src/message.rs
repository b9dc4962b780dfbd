//! Messages for people beside the results: on stderr. Its reader may have gone; that must not end a measurement, and
//! `eprintln!` would end the process.

use std::fmt::Arguments;
use std::io::Write as _;

/// Writes to stderr as far as it can be written.
pub(crate) fn on_stderr(text: Arguments<'_>) {
    // There is nowhere else to report this.
    let _ = std::io::stderr().lock().write_fmt(text);
}

/// Writes a line to stderr, as `eprintln!`, but goes on where that cannot be written.
macro_rules! message {
    ($($words:tt)*) => {
        $crate::message::on_stderr(format_args!("{}\n", format_args!($($words)*)))
    };
}
