use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::call::{self, Attributes};
use super::error::BpfError;
use super::program::{Program, ProgramKind};

const ATTACH_XDP: u32 = 37;
const ATTACH_TCX_INGRESS: u32 = 46;
const ATTACH_TCX_EGRESS: u32 = 47;
const XDP_GENERIC: u32 = 1 << 1;
const XDP_NATIVE: u32 = 1 << 2;

/// How an interface runs an XDP program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpMode {
    /// In the driver.
    Native,
    /// In the network stack, on packets it has already copied: slower, for drivers without XDP.
    Generic,
}

/// An XDP program at an interface; it is detached when this is dropped, or when the process ends.
#[derive(Debug)]
pub struct XdpLink {
    _fd: OwnedFd,
    mode: XdpMode,
    native_refused: Option<String>,
}

/// A side of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcSide {
    /// What comes in.
    Ingress,
    /// What goes out.
    Egress,
}

/// A program at the entry or exit of an interface; it is detached when this is dropped, or when the process ends.
#[derive(Debug)]
pub struct TcLink {
    _fd: OwnedFd,
}

#[repr(C)]
struct Create {
    program: u32,
    interface: u32,
    kind: u32,
    flags: u32,
}
// SAFETY: the start of the layout of BPF_LINK_CREATE, which is all that XDP and TCX without an order need; no pointers.
unsafe impl Attributes for Create {}

fn create(program: &Program, interface: u32, kind: u32, flags: u32) -> io::Result<OwnedFd> {
    use std::os::fd::AsFd;
    let mut name = [0; libc::IF_NAMESIZE];
    // SAFETY: the buffer is live and as long as names are at most.
    if unsafe { libc::if_indextoname(interface, name.as_mut_ptr()) }.is_null() {
        let error = io::Error::last_os_error();
        // The call below would answer EINVAL, which is also the answer to unknown commands.
        let gone = error.raw_os_error() == Some(libc::ENXIO);
        return Err(if gone { io::Error::from_raw_os_error(libc::ENODEV) } else { error });
    }
    let program = program.as_fd().as_raw_fd().cast_unsigned();
    call::open(call::LINK_CREATE, &mut Create { program, interface, kind, flags })
}

impl XdpLink {
    /// Attaches `program` to the interface of this number: in its driver, else in the network stack (see
    /// [`XdpLink::mode`]).
    ///
    /// # Errors
    /// Where the kernel refuses both, or another program is attached.
    ///
    /// # Panics
    /// Where the program is none for XDP.
    pub fn attach(program: &Program, interface: u32) -> Result<Self, BpfError> {
        assert_eq!(program.kind(), ProgramKind::Xdp, "{} is no XDP program", program.name());
        let native = match create(program, interface, ATTACH_XDP, XDP_NATIVE) {
            Ok(fd) => return Ok(Self { _fd: fd, mode: XdpMode::Native, native_refused: None }),
            Err(error) => error,
        };
        if matches!(native.raw_os_error(), Some(libc::EBUSY | libc::EEXIST | libc::EPERM | libc::ENODEV)) {
            return Err(refused(native, program, interface));
        }
        let fd =
            create(program, interface, ATTACH_XDP, XDP_GENERIC).map_err(|error| refused(error, program, interface))?;
        Ok(Self { _fd: fd, mode: XdpMode::Generic, native_refused: Some(native.to_string()) })
    }

    /// How it runs.
    #[must_use]
    pub const fn mode(&self) -> XdpMode {
        self.mode
    }

    /// Why the driver refused to run it natively, where it did.
    #[must_use]
    pub fn native_refused(&self) -> Option<&str> {
        self.native_refused.as_deref()
    }
}

impl TcLink {
    /// Attaches `program` to one side of the interface of this number, beside what is there.
    ///
    /// # Errors
    /// Where the kernel refuses: before Linux 6.6 there are no such links, and filters of `tc` are not used in their
    /// place, since they would outlive a process that is killed.
    ///
    /// # Panics
    /// Where the program is none for tc.
    pub fn attach(program: &Program, interface: u32, side: TcSide) -> Result<Self, BpfError> {
        assert_eq!(program.kind(), ProgramKind::Tc, "{} is no program for tc", program.name());
        let kind = match side {
            TcSide::Ingress => ATTACH_TCX_INGRESS,
            TcSide::Egress => ATTACH_TCX_EGRESS,
        };
        create(program, interface, kind, 0).map(|fd| Self { _fd: fd }).map_err(|error| {
            BpfError::of(
                error,
                doing(program, interface),
                "CAP_BPF and CAP_NET_ADMIN",
                "Linux 6.6 with CONFIG_NET_XGRESS",
            )
        })
    }
}

fn doing(program: &Program, interface: u32) -> String {
    format!("attach {} to interface {interface}", program.name())
}

fn refused(error: io::Error, program: &Program, interface: u32) -> BpfError {
    BpfError::of(
        error,
        doing(program, interface),
        "CAP_BPF and CAP_NET_ADMIN",
        "Linux 5.9 and a driver that takes frames of this MTU",
    )
}
