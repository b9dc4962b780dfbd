//! File systems and the block devices under them: which one holds a directory, and what a device has moved.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::Serialize;

use crate::kernel_file;

/// The unit of the kernel's counters of block devices, whatever the device's own.
const SECTOR_BYTE: u64 = 512;
/// File systems whose files are memory.
const IN_MEMORY: [&str; 4] = ["tmpfs", "ramfs", "rootfs", "devtmpfs"];

/// The file system that holds a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileSystem {
    /// Its type, as in `ext4`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The block device that it is on, as in `vda1`; `None` where it is on none, or on several.
    pub device: Option<String>,
    /// Whether files there are memory and no device has them.
    pub in_memory: bool,
}

/// What a block device has moved, for whomever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceTraffic {
    /// Bytes written to it.
    pub written_byte: u64,
    /// Bytes read from it.
    pub read_byte: u64,
}

impl DeviceTraffic {
    /// What it has moved since.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            written_byte: self.written_byte.saturating_sub(earlier.written_byte),
            read_byte: self.read_byte.saturating_sub(earlier.read_byte),
        }
    }
}

/// The file system that holds `directory`; `None` where the kernel does not show it.
#[must_use]
pub fn file_system_of(directory: &Path) -> Option<FileSystem> {
    let number = device_number(fs::metadata(directory).ok()?.dev());
    let kind = kind_in(&kernel_file::text("/proc/self/mountinfo")?, &number)?;
    let link = fs::read_link(Path::new("/sys/dev/block").join(&number)).ok();
    let device = link.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    Some(FileSystem { in_memory: IN_MEMORY.contains(&kind.as_str()), kind, device })
}

/// What the device of this name has moved since the machine started; `None` where it does not count.
#[must_use]
pub fn traffic_of(device: &str) -> Option<DeviceTraffic> {
    traffic_in(&kernel_file::text(Path::new("/sys/class/block").join(device).join("stat"))?)
}

/// `major:minor`, as the kernel writes it.
fn device_number(device: u64) -> String {
    let major = (device >> 8 & 0xfff) | (device >> 32 & 0xffff_f000);
    let minor = (device & 0xff) | (device >> 12 & 0xffff_ff00);
    format!("{major}:{minor}")
}

/// The type of the file system with this number, of the mount made last: proc(5), `mountinfo`.
fn kind_in(mounts: &str, number: &str) -> Option<String> {
    let line = mounts.lines().rev().find(|line| line.split(' ').nth(2) == Some(number))?;
    let (_, behind) = line.split_once(" - ")?;
    Some(behind.split(' ').next()?.to_owned())
}

/// The third and the seventh field: sectors read and written (the kernel's Documentation/block/stat.rst).
fn traffic_in(stat: &str) -> Option<DeviceTraffic> {
    let mut fields = stat.split_ascii_whitespace().map(|field| field.parse::<u64>().ok());
    let read = fields.nth(2)??;
    let written = fields.nth(3)??;
    Some(DeviceTraffic { written_byte: written * SECTOR_BYTE, read_byte: read * SECTOR_BYTE })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_is_that_of_the_mount_with_the_number() {
        let mounts = "21 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n\
                      30 21 0:26 / /tmp rw,nosuid - tmpfs tmpfs rw\n";
        assert_eq!(kind_in(mounts, "254:1").as_deref(), Some("ext4"));
        assert_eq!(kind_in(mounts, "0:26").as_deref(), Some("tmpfs"));
        assert_eq!(kind_in(mounts, "8:1"), None);
    }

    #[test]
    fn a_device_number_is_written_as_the_kernel_writes_it() {
        // makedev(254, 1), makedev(259, 300).
        assert_eq!(device_number(0xfe01), "254:1");
        assert_eq!(device_number(259 << 8 | 300 & 0xff | (300 & 0xff00) << 12), "259:300");
    }

    #[test]
    fn sectors_become_bytes_and_half_a_line_is_no_figure() {
        let stat = "  100  2  2048  9  50  3  4096  7  0  5  16  0 0 0 0 0 0\n";
        let traffic = DeviceTraffic { written_byte: 4096 * 512, read_byte: 2048 * 512 };
        assert_eq!(traffic_in(stat), Some(traffic));
        assert_eq!(traffic_in("100 2 2048"), None);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri itself answers what a file is on")]
    fn proc_is_on_no_device() {
        let found = file_system_of(Path::new("/proc/self")).expect("proc is mounted");
        assert_eq!((found.kind.as_str(), found.device, found.in_memory), ("proc", None, false));
    }
}
