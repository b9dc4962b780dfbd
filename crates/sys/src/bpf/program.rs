use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use super::call::{self, Attributes};
use super::error::BpfError;
use super::types;

/// Where a program can be attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramKind {
    /// At the driver, before the network stack: sections `xdp`, `xdp/NAME`; `xdp.frags` for programs that also stand
    /// frames of which they see only the beginning (Linux 5.18), as drivers want for a large MTU.
    Xdp,
    /// At the entry or exit of an interface, within the stack: sections `tc`, `tc/NAME`.
    Tc,
}

impl ProgramKind {
    /// The kind that a section's name stands for, and flags for loading.
    pub(super) fn of_section(section: &str) -> Option<(Self, u32)> {
        /// BPF_F_XDP_HAS_FRAGS
        const FRAGMENTS: u32 = 1 << 5;
        match section.split('/').next() {
            Some("xdp") => Some((Self::Xdp, 0)),
            Some("xdp.frags") => Some((Self::Xdp, FRAGMENTS)),
            Some("tc") => Some((Self::Tc, 0)),
            _ => None,
        }
    }

    const fn number(self) -> u32 {
        match self {
            Self::Tc => 3,
            Self::Xdp => 6,
        }
    }
}

/// A program that the kernel has accepted. It is freed with its last link and this value.
#[derive(Debug)]
pub struct Program {
    fd: OwnedFd,
    name: String,
    kind: ProgramKind,
}

#[repr(C)]
#[derive(Default)]
struct Load {
    kind: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_kind: u32,
    types: u32,
    function_size: u32,
    functions: u64,
    function_count: u32,
    _end: u32,
}
// SAFETY: the layout of BPF_PROG_LOAD up to func_info_cnt, and line_info_rec_size, which is 0. `Program::load` keeps
// what is pointed at alive.
unsafe impl Attributes for Load {}

#[repr(C)]
#[derive(Default)]
struct TestRun {
    program: u32,
    answer: u32,
    data_byte: u32,
    data_out_byte: u32,
    data: u64,
    data_out: u64,
    repeat: u32,
    duration_ns: u32,
    context_byte: u32,
    context_out_byte: u32,
    context: u64,
    context_out: u64,
    flags: u32,
    cpu: u32,
    batch: u32,
    _end: u32,
}
// SAFETY: the layout of BPF_PROG_TEST_RUN, padded as the kernel's is; the methods below keep what is pointed at alive.
unsafe impl Attributes for TestRun {}

/// How a program for live frames is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveRun {
    /// How often the program is called, each time with a frame of its own.
    pub repeat: u32,
    /// Frames that leave together; 1: each at once.
    pub batch: u32,
}

/// Bytes of the verifier's words that are kept.
const LOG_BYTE: usize = 1 << 20;
const SHOWN_LINES: usize = 40;

impl Program {
    /// Loads instructions whose maps and calls are resolved. `functions`: where each subprogram begins, in
    /// instructions, with 0 first.
    pub(super) fn load(
        name: &str,
        (kind, flags): (ProgramKind, u32),
        license: &str,
        instructions: &[u64],
        functions: &[u32],
    ) -> Result<Self, BpfError> {
        let license: Vec<u8> = license.bytes().chain([0]).collect();
        let described =
            if functions.len() > 1 { Some(types::load(&types::describe(functions.len() as u32))?) } else { None };
        let info: Vec<[u32; 2]> = functions.iter().zip(types::FIRST_FUNCTION..).map(|(at, id)| [*at, id]).collect();
        let mut arguments = Load {
            kind: kind.number(),
            flags,
            instruction_count: instructions.len() as u32,
            instructions: call::address(instructions.as_ptr()),
            license: call::address(license.as_ptr()),
            name: call::name(name),
            ..Load::default()
        };
        if let Some(types) = &described {
            arguments.types = types.as_raw_fd().cast_unsigned();
            arguments.function_size = 8;
            arguments.functions = call::address(info.as_ptr());
            arguments.function_count = info.len() as u32;
        }
        match call::open(call::PROG_LOAD, &mut arguments) {
            Ok(fd) => return Ok(Self { fd, name: name.to_owned(), kind }),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOSYS)) => {
                return Err(BpfError::of(
                    error,
                    format!("load the program {name}"),
                    "CAP_BPF and CAP_NET_ADMIN",
                    "CONFIG_BPF_SYSCALL",
                ));
            }
            Err(_) => {}
        }
        // Again, now with the verifier's words: with them loading takes several times as long.
        let mut log = vec![0_u8; LOG_BYTE];
        arguments.log = call::address(log.as_mut_ptr());
        arguments.log_size = LOG_BYTE as u32;
        arguments.log_level = 1;
        match call::open(call::PROG_LOAD, &mut arguments) {
            Ok(fd) => Ok(Self { fd, name: name.to_owned(), kind }),
            Err(source) => Err(BpfError::Verifier { program: name.to_owned(), log: last_lines(&log), source }),
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it can be attached.
    #[must_use]
    pub const fn kind(&self) -> ProgramKind {
        self.kind
    }

    /// Calls the program once on a copy of `frame`; gives its answer and the frame as it left it, which may have
    /// another length.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn run_once(&self, frame: &[u8]) -> Result<(u32, Vec<u8>), BpfError> {
        let mut after = vec![0_u8; frame.len() + 256];
        let mut arguments = TestRun {
            program: self.fd.as_raw_fd().cast_unsigned(),
            data_byte: frame.len() as u32,
            data: call::address(frame.as_ptr()),
            data_out_byte: after.len() as u32,
            data_out: call::address(after.as_mut_ptr()),
            repeat: 1,
            ..TestRun::default()
        };
        call::bpf(call::PROG_TEST_RUN, &mut arguments).map_err(|error| self.refused(error, "Linux 4.12"))?;
        after.truncate(arguments.data_out_byte as usize);
        Ok((arguments.answer, after))
    }

    /// Calls an XDP program for `run.repeat` live frames, each a copy of `frame`, and does with each what the program
    /// answers: a frame that is redirected leaves. Returns when all are done, or after a signal.
    ///
    /// The mean time of a call, as the kernel counts it, is the answer.
    ///
    /// # Errors
    /// Where the kernel refuses; EINTR after a signal.
    pub fn run_live(&self, frame: &[u8], run: LiveRun) -> Result<Duration, BpfError> {
        /// BPF_F_TEST_XDP_LIVE_FRAMES
        const LIVE_FRAMES: u32 = 1 << 1;
        let mut arguments = TestRun {
            program: self.fd.as_raw_fd().cast_unsigned(),
            data_byte: frame.len() as u32,
            data: call::address(frame.as_ptr()),
            repeat: run.repeat,
            batch: run.batch,
            flags: LIVE_FRAMES,
            ..TestRun::default()
        };
        call::bpf(call::PROG_TEST_RUN, &mut arguments)
            .map_err(|error| self.refused(error, "live frames: Linux 5.18"))?;
        Ok(Duration::from_nanos(arguments.duration_ns.into()))
    }

    fn refused(&self, source: std::io::Error, want: &'static str) -> BpfError {
        BpfError::of(source, format!("run the program {}", self.name), "CAP_BPF and CAP_NET_ADMIN", want)
    }
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn last_lines(log: &[u8]) -> String {
    let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
    let text = String::from_utf8_lossy(&log[..end]);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n")
}
