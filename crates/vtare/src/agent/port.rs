//! The channel's own end: a virtio port, a serial line, or stdin and stdout.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios;
use vtare_sys::kernel_file;

use super::frame::{Frame, Kind};
use crate::failure::Failure;

const PORTS: &str = "/sys/class/virtio-ports";
/// How long to sleep between two checks of a port whose other end nobody has opened.
const REST: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// An open channel.
#[derive(Debug)]
pub(crate) struct Port {
    input: File,
    /// What writes frames; commands that run share it.
    pub(crate) output: Output,
}

impl Port {
    /// Opens a device file, or the virtio port of this name. A terminal is made to pass on every byte as it is.
    ///
    /// # Errors
    /// [`Failure::Machine`] with the ports that there are.
    pub(crate) fn open(name: &str) -> Result<Self, Failure> {
        let path = if name.contains('/') { Some(PathBuf::from(name)) } else { virtio_port(Path::new(PORTS), name) };
        let Some(path) = path else {
            let found = virtio_names(Path::new(PORTS));
            let found = if found.is_empty() { "none".to_owned() } else { found.join(", ") };
            return Err(Failure::Machine(format!(
                "--port: no virtio port is called '{name}' here; there are: {found}"
            )));
        };
        let cannot = |error: io::Error| Failure::Machine(format!("--port: {}: {error}", path.display()));
        let input = OpenOptions::new().read(true).write(true).open(&path).map_err(cannot)?;
        make_raw(&input).map_err(cannot)?;
        let output = input.try_clone().map_err(cannot)?;
        Ok(Self { input, output: Output::to(output) })
    }

    /// The channel over stdin and stdout.
    ///
    /// # Errors
    /// Where one of them is closed.
    pub(crate) fn stdio() -> Result<Self, Failure> {
        let own = |descriptor: io::Result<std::os::fd::OwnedFd>| {
            descriptor.map(File::from).map_err(|error| Failure::Machine(format!("stdin or stdout: {error}")))
        };
        let input = own(io::stdin().as_fd().try_clone_to_owned())?;
        let output = own(io::stdout().as_fd().try_clone_to_owned())?;
        Ok(Self { input, output: Output::to(output) })
    }

    /// Waits until the other end is open. A virtio port reads as ended before that.
    pub(crate) fn wait_open(&self) {
        loop {
            let mut watched = [PollFd::new(&self.input, PollFlags::IN)];
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            let closed = poll(&mut watched, Some(&now)).is_ok() && watched[0].revents().contains(PollFlags::HUP);
            // A pipe that is closed may still hold data: reading it finds out.
            if !closed || watched[0].revents().contains(PollFlags::IN) || !self.is_virtio() {
                return;
            }
            let _ = poll(&mut [], Some(&REST));
        }
    }

    /// Reads what has come; 0 where the other end is closed.
    ///
    /// # Errors
    /// Where the line fails.
    pub(crate) fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.input.read(bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    fn is_virtio(&self) -> bool {
        use std::os::unix::fs::FileTypeExt;
        let device = self.input.metadata().is_ok_and(|facts| facts.file_type().is_char_device());
        device && !termios::isatty(&self.input)
    }
}

/// The way out, shared by all that write to it. A frame is written whole.
#[derive(Clone, Debug)]
pub(crate) struct Output(Arc<Mutex<File>>);

impl Output {
    /// Frames go to this file.
    pub(crate) fn to(file: File) -> Self {
        Self(Arc::new(Mutex::new(file)))
    }

    /// Sends a frame. A failure is dropped: reading from the line meets it too.
    pub(crate) fn send(&self, kind: Kind, job: u32, payload: &[u8]) {
        let bytes = Frame::encode(kind, job, payload);
        let mut file = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let _ = file.write_all(&bytes).and_then(|()| file.flush());
    }

    /// Sends a payload as JSON.
    pub(crate) fn send_json(&self, kind: Kind, job: u32, document: &impl serde::Serialize) {
        let text = serde_json::to_vec(document).unwrap_or_default();
        if text.len() > super::frame::MAX_PAYLOAD_BYTE {
            self.fail(job, &format!("the answer is {} B long, more than a frame holds", text.len()));
        } else {
            self.send(kind, job, &text);
        }
    }

    /// Reports why a request was not carried out.
    pub(crate) fn fail(&self, job: u32, why: &str) {
        let why: String = why.chars().take(2000).collect();
        self.send_json(Kind::Failed, job, &serde_json::json!({ "error": why }));
    }
}

/// Has a terminal pass on all bytes as they are; does nothing to what is no terminal.
fn make_raw(file: &File) -> io::Result<()> {
    if termios::isatty(file) {
        let mut settings = termios::tcgetattr(file)?;
        settings.make_raw();
        termios::tcsetattr(file, termios::OptionalActions::Flush, &settings)?;
    }
    Ok(())
}

/// The device file of a virtio port.
fn virtio_port(ports: &Path, name: &str) -> Option<PathBuf> {
    let called =
        |entry: &fs::DirEntry| kernel_file::text(entry.path().join("name")).is_some_and(|is| is.trim() == name);
    let found = fs::read_dir(ports).ok()?.flatten().find(called)?;
    Some(Path::new("/dev").join(found.file_name()))
}

fn virtio_names(ports: &Path) -> Vec<String> {
    let entries = fs::read_dir(ports).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| kernel_file::text(entry.path().join("name")))
        .map(|name| name.trim().to_owned())
        .collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_virtio_port_is_found_by_its_name() {
        let root = std::env::temp_dir().join(format!("vtare-ports-{}", std::process::id()));
        for (port, name) in [("vport0p1", "other"), ("vport0p2", "org.vtare.agent")] {
            fs::create_dir_all(root.join(port)).expect("the temporary directory is writable");
            fs::write(root.join(port).join("name"), format!("{name}\n")).expect("it is writable");
        }
        assert_eq!(virtio_port(&root, "org.vtare.agent"), Some(PathBuf::from("/dev/vport0p2")));
        assert_eq!(virtio_port(&root, "none"), None);
        assert_eq!(virtio_names(&root), ["org.vtare.agent", "other"]);
        fs::remove_dir_all(root).expect("it is ours");
    }

    #[test]
    fn a_port_that_is_not_there_is_named() {
        let error = Port::open("org.vtare.nothing").expect_err("no such port");
        assert!(error.code() == 3 && error.to_string().contains("'org.vtare.nothing'"), "{error}");
        assert!(Port::open("/nonexistent/port").is_err());
    }
}
