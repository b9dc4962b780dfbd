//! The figures of benchmarks in Rust, for the document that `bench/figures.py` prints.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;

/// Records a figure and returns its value, to be formatted where it is printed. The unit of counts and ratios is empty;
/// what is missing is NaN.
pub fn figure(name: impl Display, value: f64, unit: &str) -> f64 {
    if let Some(file) = std::env::var_os("VTARE_BENCH_FIGURES") {
        let shown = if value.is_finite() { value.to_string() } else { "null".to_owned() };
        let line = format!(
            "{{\"name\": {:?}, \"unit\": {unit:?}, \"value\": {shown}, \"interval\": null}}\n",
            name.to_string()
        );
        let written = OpenOptions::new()
            .append(true)
            .create(true)
            .open(&file)
            .and_then(|mut file| file.write_all(line.as_bytes()));
        written.unwrap_or_else(|error| panic!("cannot write figures to {}: {error}", file.display()));
    }
    value
}

/// Records whether a target was reached, as 1 or 0.
pub fn goal(text: impl Display, reached: bool) {
    figure(format_args!("reached: {text}"), f64::from(u8::from(reached)), "");
}
