//! What a program asks of the kernel, counted by kind with perf_event_open(2): for `vtare weigh` (docs/guide/weigh.md).

use std::collections::BTreeMap;
use std::ffi::{CString, c_long};
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use vtare_sys::calls;
use vtare_sys::perf::{Counter, Counts, Event};

/// How often each kind happened.
pub(crate) type Happened = BTreeMap<&'static str, u64>;

/// Every system call that has no kind of its own.
pub(crate) const SYSTEM_CALL: &str = "system call";
/// A page that was not there.
pub(crate) const PAGE_FAULT: &str = "page fault";
/// A page of a mapped file that was not there; its neighbours come with it.
pub(crate) const FILE_FAULT: &str = "file page fault";
/// A page that is there to be read, and is copied when it is written to.
pub(crate) const COPY: &str = "copied page";
/// A change of the address space.
pub(crate) const MAPPING: &str = "mapping";
/// A file that is opened.
pub(crate) const OPEN: &str = "file open";
/// Facts of a file, by its name.
pub(crate) const LOOKUP: &str = "file lookup";
/// A file that is opened and may be made.
pub(crate) const CREATE: &str = "file creation";
/// A name that is made, changed or removed.
pub(crate) const NAME: &str = "change of a name";
/// Names of a directory that are read.
pub(crate) const LISTING: &str = "directory read";
/// Bytes read or written by a descriptor.
pub(crate) const READ: &str = "read or write";
/// Bytes that are to be on the device.
pub(crate) const FSYNC: &str = "fsync";
/// A datagram or a part of a stream, sent or received by calls of sockets.
pub(crate) const PACKET: &str = "packet";
/// A wait for a time.
pub(crate) const SLEEP: &str = "sleep";
/// A wait for anything else that a thread was woken from.
pub(crate) const WAKE_UP: &str = "wake-up";
/// A program that is started.
pub(crate) const PROGRAM: &str = "program start";

/// A wait that ends by a wake-up (TASK_INTERRUPTIBLE), not one for a device.
const WAITS: &str = "prev_state & 1";

/// A write by the program itself to a page that is there and may not be written to: X86_PF_PROT, X86_PF_WRITE and
/// X86_PF_USER.
const COPIES: &str = "error_code == 7";

/// The system calls of each kind that is told apart by them.
const CALLS: [(&str, &[c_long]); 9] = [
    (MAPPING, calls::MAPPING),
    (OPEN, calls::OPEN),
    (LOOKUP, calls::LOOKUP),
    (NAME, calls::NAME),
    (LISTING, calls::LISTING),
    (READ, calls::READ_OR_WRITE),
    (FSYNC, calls::FSYNC),
    (PACKET, calls::PACKET),
    (SLEEP, calls::SLEEP),
];

/// Counters of all kinds.
pub(crate) struct Events {
    by_call: Vec<(&'static str, Counter)>,
    all_calls: Counter,
    /// Facts of an open file, which some libraries ask for by a call of [`LOOKUP`].
    by_descriptor: Counter,
    /// Calls of [`OPEN`] that are [`CREATE`].
    creates: Counter,
    faults: Counter,
    /// Those of mapped files; none before Linux 6.10, which does not tell them apart.
    file_faults: Vec<Counter>,
    /// Where the kernel states what a fault was for.
    copies: Option<Counter>,
    waits: Counter,
    programs: Counter,
}

impl Events {
    /// Opens the counters of the calling thread.
    ///
    /// # Errors
    /// Why this machine does not let it count, in words.
    pub(crate) fn open(counts: Counts) -> Result<Self, String> {
        let trace = trace_files().map_err(|error| format!("the kernel's tracepoints cannot be read: {error}"))?;
        let counter = |name: &str, filter: Option<String>| -> Result<Counter, String> {
            let number =
                number(&trace, name).map_err(|error| format!("the kernel has no tracepoint {name}: {error}"))?;
            let filter = filter.map(|text| CString::new(text).expect("no filter has a NUL"));
            let event = Event::Tracepoint(number, filter.as_deref());
            Counter::open(event, counts).map_err(|error| error.to_string())
        };
        let of_calls = |numbers: &[c_long]| {
            let parts: Vec<String> = numbers.iter().map(|number| format!("id == {number}")).collect();
            counter("raw_syscalls/sys_enter", Some(parts.join(" || ")))
        };
        Ok(Self {
            by_call: CALLS
                .into_iter()
                .map(|(kind, numbers)| Ok((kind, of_calls(numbers)?)))
                .collect::<Result<_, String>>()?,
            all_calls: counter("raw_syscalls/sys_enter", None)?,
            by_descriptor: counter("syscalls/sys_enter_newfstatat", Some(format!("flag & {}", calls::OF_OPEN_FILE)))?,
            creates: counter("syscalls/sys_enter_openat", Some(format!("flags & {}", calls::CREATES)))?,
            faults: Counter::open(Event::PageFault, counts).map_err(|error| error.to_string())?,
            file_faults: ["filemap/mm_filemap_map_pages", "filemap/mm_filemap_fault"]
                .into_iter()
                .map(|name| counter(name, None))
                .collect::<Result<_, _>>()
                .unwrap_or_default(),
            copies: counter("exceptions/page_fault_user", Some(COPIES.to_owned())).ok(),
            waits: counter("sched/sched_switch", Some(WAITS.to_owned()))?,
            programs: counter("sched/sched_process_exec", None)?,
        })
    }

    /// Counts what `work` does.
    ///
    /// # Errors
    /// What `work` answers, and where the kernel does not go on.
    pub(crate) fn during(&self, work: impl FnOnce() -> std::io::Result<()>) -> std::io::Result<Happened> {
        let before = self.read()?;
        self.counters().try_for_each(Counter::enable)?;
        let done = work();
        // The calls of this function are not to be among those that are counted.
        self.counters().rev().try_for_each(Counter::disable)?;
        done?;
        let since = |(kind, now): (&'static str, u64)| (kind, now.saturating_sub(before[kind]));
        Ok(self.read()?.into_iter().map(since).collect())
    }

    /// What happened so far, each event in one kind.
    ///
    /// # Errors
    /// Where the kernel does not give it.
    pub(crate) fn read(&self) -> std::io::Result<Happened> {
        let mut happened = Happened::new();
        for (kind, counter) in &self.by_call {
            happened.insert(kind, counter.read()?);
        }
        let by_descriptor = self.by_descriptor.read()?;
        happened.entry(LOOKUP).and_modify(|lookups| *lookups = lookups.saturating_sub(by_descriptor));
        let creates = self.creates.read()?;
        happened.entry(OPEN).and_modify(|opens| *opens = opens.saturating_sub(creates));
        happened.insert(CREATE, creates);
        let with_kind: u64 = happened.values().sum();
        happened.insert(SYSTEM_CALL, self.all_calls.read()?.saturating_sub(with_kind));
        let of_files = self.file_faults.iter().map(Counter::read).sum::<std::io::Result<u64>>()?;
        let copies = self.copies.as_ref().map_or(Ok(0), Counter::read)?;
        happened.insert(PAGE_FAULT, self.faults.read()?.saturating_sub(of_files + copies));
        if self.copies.is_some() {
            happened.insert(COPY, copies);
        }
        if !self.file_faults.is_empty() {
            happened.insert(FILE_FAULT, of_files);
        }
        happened.insert(WAKE_UP, self.waits.read()?.saturating_sub(happened[SLEEP]));
        happened.insert(PROGRAM, self.programs.read()?);
        Ok(happened)
    }

    /// Whether this kernel has a counter for a kind.
    pub(crate) fn tells_apart(&self, kind: &str) -> bool {
        match kind {
            FILE_FAULT => !self.file_faults.is_empty(),
            COPY => self.copies.is_some(),
            _ => true,
        }
    }

    /// That of all system calls is the last.
    fn counters(&self) -> impl DoubleEndedIterator<Item = &Counter> {
        let others = [&self.by_descriptor, &self.creates, &self.faults, &self.waits, &self.programs, &self.all_calls];
        self.by_call.iter().map(|(_, counter)| counter).chain(&self.file_faults).chain(&self.copies).chain(others)
    }
}

/// The files of the kernel's tracing, mounted at no place: they are gone with the descriptor.
fn trace_files() -> std::io::Result<OwnedFd> {
    let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::MOUNT_ATTR_RDONLY)?)
}

fn number(trace: &OwnedFd, name: &str) -> std::io::Result<u64> {
    let file = openat(trace, format!("events/{name}/id"), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let text = std::io::read_to_string(std::fs::File::from(file))?;
    text.trim().parse().map_err(std::io::Error::other)
}
