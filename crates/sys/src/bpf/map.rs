use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicU64;

use super::call::{self, Attributes};
use super::error::BpfError;
use super::map_shape::{MapKind, MapShape};

/// Flag of an array that can be mapped into memory.
pub(super) const MMAPABLE: u32 = 1 << 10;

/// A map: what programs in the kernel and this process share. The kernel frees it with its last user.
#[derive(Debug)]
pub struct Map {
    fd: OwnedFd,
    name: String,
    shape: MapShape,
}

#[repr(C)]
#[derive(Default)]
struct Create {
    kind: u32,
    key_byte: u32,
    value_byte: u32,
    most_entries: u32,
    flags: u32,
    inner_map: u32,
    numa_node: u32,
    name: [u8; 16],
}
// SAFETY: the layout of BPF_MAP_CREATE; no pointers.
unsafe impl Attributes for Create {}

#[repr(C)]
struct Element {
    map: u32,
    _hole: u32,
    key: u64,
    value: u64,
    flags: u64,
}
// SAFETY: the layout of BPF_MAP_*_ELEM; the methods below check that key and value are as long as the map's.
unsafe impl Attributes for Element {}

impl Map {
    /// Makes a map.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn create(name: &str, shape: MapShape) -> Result<Self, BpfError> {
        let MapShape { kind, key_byte, value_byte, most_entries, flags } = shape;
        let mut arguments = Create {
            kind: kind as u32,
            key_byte,
            value_byte,
            most_entries,
            flags,
            name: call::name(name),
            ..Create::default()
        };
        let fd = call::open(call::MAP_CREATE, &mut arguments)
            .map_err(|source| BpfError::of(source, format!("make the map {name}"), "CAP_BPF", kind.since()))?;
        Ok(Self { fd, name: name.to_owned(), shape })
    }

    /// Its shape.
    #[must_use]
    pub const fn shape(&self) -> MapShape {
        self.shape
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The value of `key`; whether there is one.
    ///
    /// # Errors
    /// Where the kernel refuses.
    ///
    /// # Panics
    /// Where key or value are not as long as the map's, or the map is one per CPU (its values are longer).
    pub fn lookup(&self, key: &[u8], value: &mut [u8]) -> Result<bool, BpfError> {
        assert_eq!(value.len(), self.shape.value_byte as usize, "value of the map {}", self.name);
        let mut arguments = self.element(key, value.as_ptr(), 0);
        match call::bpf(call::MAP_LOOKUP_ELEM, &mut arguments) {
            Ok(_) => Ok(true),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
            Err(error) => Err(self.refused(error, "read")),
        }
    }

    /// Sets the value of `key`.
    ///
    /// # Errors
    /// Where the kernel refuses, as for a full map.
    ///
    /// # Panics
    /// As [`Map::lookup`].
    pub fn update(&self, key: &[u8], value: &[u8]) -> Result<(), BpfError> {
        assert_eq!(value.len(), self.shape.value_byte as usize, "value of the map {}", self.name);
        let mut arguments = self.element(key, value.as_ptr(), 0);
        call::bpf(call::MAP_UPDATE_ELEM, &mut arguments).map(drop).map_err(|error| self.refused(error, "write"))
    }

    /// Removes `key`; whether it was there.
    ///
    /// # Errors
    /// Where the kernel refuses.
    ///
    /// # Panics
    /// As [`Map::lookup`].
    pub fn delete(&self, key: &[u8]) -> Result<bool, BpfError> {
        let mut arguments = self.element(key, std::ptr::null(), 0);
        match call::bpf(call::MAP_DELETE_ELEM, &mut arguments) {
            Ok(_) => Ok(true),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
            Err(error) => Err(self.refused(error, "remove from")),
        }
    }

    /// Maps the whole of an array into memory: reading and writing it then takes no system call.
    ///
    /// # Errors
    /// For a map that is no array made with BPF_F_MMAPABLE, and where the kernel refuses.
    pub fn view(&self) -> Result<MapView, BpfError> {
        if self.shape.kind != MapKind::Array || self.shape.flags & MMAPABLE == 0 {
            let found = format!("the map {} is no array that can be mapped into memory", self.name);
            return Err(BpfError::Object { file: self.name.clone(), found });
        }
        let stride_byte = self.shape.value_byte.next_multiple_of(8) as usize;
        let words = stride_byte / 8 * self.shape.most_entries as usize;
        let pages = Pages::map(&self.fd, words * 8, 0, true).map_err(|error| self.refused(error, "map into memory"))?;
        Ok(MapView { pages, words, stride: stride_byte / 8 })
    }

    pub(super) const fn owned(&self) -> &OwnedFd {
        &self.fd
    }

    fn element(&self, key: &[u8], value: *const u8, flags: u64) -> Element {
        assert_eq!(key.len(), self.shape.key_byte as usize, "key of the map {}", self.name);
        assert!(!self.shape.kind.is_per_cpu(), "values of the map {} are longer than one", self.name);
        Element {
            map: self.fd.as_raw_fd().cast_unsigned(),
            _hole: 0,
            key: call::address(key.as_ptr()),
            value: call::address(value),
            flags,
        }
    }

    fn refused(&self, source: std::io::Error, verb: &str) -> BpfError {
        BpfError::of(source, format!("{verb} the map {}", self.name), "CAP_BPF", "a kernel with this kind of map")
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// An array map as memory: 64-bit words that programs in the kernel read and write at the same time.
#[derive(Debug)]
pub struct MapView {
    pages: Pages,
    words: usize,
    stride: usize,
}

impl MapView {
    /// All words of all entries; an entry begins every [`MapView::stride`] words.
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is at least this long, page-aligned, lives as long as the borrow, and is only ever used
        // through atomics here; the kernel's side writes whole aligned words or atomically.
        unsafe { std::slice::from_raw_parts(self.pages.address.cast::<AtomicU64>(), self.words) }
    }

    /// The words of one entry.
    ///
    /// # Panics
    /// Where there is no such entry.
    #[must_use]
    pub fn entry(&self, index: usize) -> &[AtomicU64] {
        &self.words()[index * self.stride..(index + 1) * self.stride]
    }

    /// Words from one entry to the next.
    #[must_use]
    pub const fn stride(&self) -> usize {
        self.stride
    }
}

/// Memory shared with the kernel.
#[derive(Debug)]
pub(crate) struct Pages {
    pub(crate) address: *mut u8,
    length: usize,
}

// SAFETY: shared memory belongs to no thread; its users reach it through atomics or after them.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    pub(crate) fn map(fd: &OwnedFd, length: usize, offset: usize, writable: bool) -> std::io::Result<Self> {
        let length = length.next_multiple_of(page_byte());
        let protection = if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        // SAFETY: a new mapping of a live descriptor; the kernel chooses the address and the result is checked.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                protection,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                offset as libc::off_t,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        Ok(Self { address: address.cast(), length })
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length; no borrow outlives the owner.
        unsafe { libc::munmap(self.address.cast(), self.length) };
    }
}

/// Bytes of a page of memory.
pub(super) fn page_byte() -> usize {
    // SAFETY: takes a number only.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}
