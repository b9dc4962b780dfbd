//! What goes to standard output, and vtare's own types as JSON.

use std::io::Write as _;
use std::ops::ControlFlow;

use serde::Serialize;
use serde_json::Value;
use vtare_sys::standard_output;

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

/// Refuses to print where the process was started without a standard output.
///
/// # Errors
/// Where that is so.
pub(crate) fn refuse_closed() -> Result<(), Failure> {
    let text = "standard output is closed, so the answer would be lost: send it somewhere, as `> FILE`";
    if standard_output::was_closed() { Err(Failure::Input(text.to_owned())) } else { Ok(()) }
}

/// Prints a part of what comes bit by bit on stdout. Breaks where the reader went away (`| head`), which needs no more.
///
/// # Errors
/// Where stdout cannot be written.
pub(crate) fn print_on(text: &str) -> Result<ControlFlow<()>, Failure> {
    refuse_closed()?;
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(ControlFlow::Continue(())),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(ControlFlow::Break(())),
        Err(error) => Err(Failure::Machine(format!("cannot write to standard output: {error}"))),
    }
}
