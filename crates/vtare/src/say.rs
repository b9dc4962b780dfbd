//! What is said to people beside the results: on stderr. Who listens there may have gone; that must not end a measurement, and `eprintln!`
//! would end the process.

use std::fmt::Arguments;
use std::io::Write as _;

/// Writes to stderr as far as it can be written.
pub(crate) fn on_stderr(text: Arguments<'_>) {
    // Nobody is left to tell.
    let _ = std::io::stderr().lock().write_fmt(text);
}

/// Says a line on stderr, as `eprintln!`, but goes on where nobody listens.
macro_rules! say {
    ($($words:tt)*) => {
        $crate::say::on_stderr(format_args!("{}\n", format_args!($($words)*)))
    };
}
