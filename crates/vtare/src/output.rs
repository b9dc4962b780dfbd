//! What goes to standard output, and vtare's own types as JSON.

use std::io::Write as _;
use std::ops::ControlFlow;

use serde::Serialize;
use serde_json::Value;

use crate::failure::Failure;

/// Turns vtare's own types into JSON. Numbers that are no numbers become null there, so the document is always valid.
pub(crate) fn to_json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).expect("vtare's own types have text keys and no failing parts")
}

/// Prints one JSON document on stdout.
///
/// # Errors
/// Where stdout cannot be written.
pub(crate) fn print_json(document: &Value) -> Result<(), Failure> {
    print(&format!("{document:#}\n"))
}

/// Prints text on stdout.
///
/// # Errors
/// Where stdout cannot be written; a reader that went away (`| head`) is no error.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    print_on(text).map(|_| ())
}

/// Prints a part of what comes bit by bit on stdout. Breaks where the reader went away (`| head`), which needs no more.
///
/// # Errors
/// Where stdout cannot be written.
pub(crate) fn print_on(text: &str) -> Result<ControlFlow<()>, Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(ControlFlow::Continue(())),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(ControlFlow::Break(())),
        Err(error) => Err(Failure::Machine(format!("cannot write to standard output: {error}"))),
    }
}
