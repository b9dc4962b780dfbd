use std::fs::File;
use std::io::Write;
use std::path::Path;

use vtare_units::Span;

use crate::SysError;

/// Keeps all CPUs of this machine out of sleep states that take longer than a given time to leave, for as long as it
/// lives.
///
/// It does so by holding `/dev/cpu_dma_latency` open. In a guest it moves the guest's own idle loop only, and costs
/// power: idle CPUs then poll.
#[derive(Debug)]
pub struct DmaLatency {
    _held: File,
}

impl DmaLatency {
    const PATH: &str = "/dev/cpu_dma_latency";

    /// Allows no sleep state that takes longer than `latency` to leave; zero allows none.
    ///
    /// # Errors
    /// Without write permission (root), or where the kernel has no such device.
    pub fn hold(latency: Span) -> Result<Self, SysError> {
        let micros = i32::try_from(latency.as_nanos_unsigned() / 1_000).unwrap_or(i32::MAX);
        let path = Path::new(Self::PATH);
        let opened = File::options().write(true).open(path);
        let held = opened.and_then(|mut file| file.write_all(&micros.to_ne_bytes()).map(|()| file));
        held.map(|file| Self { _held: file }).map_err(|source| SysError::Call {
            call: format!("hold {} at {micros} us", Self::PATH),
            source,
            remedy: ": run as root",
        })
    }
}
