/// What a map is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum MapKind {
    /// Values by any key.
    Hash = 1,
    /// Values by a number from 0 on.
    Array = 2,
    /// The same, once for each CPU.
    PerCpuArray = 6,
    /// Sockets by receive queue, for AF_XDP.
    Xsk = 17,
    /// Records from programs to one reader.
    RingBuffer = 27,
}

impl MapKind {
    pub(super) const fn of_number(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::Hash),
            2 => Some(Self::Array),
            6 => Some(Self::PerCpuArray),
            17 => Some(Self::Xsk),
            27 => Some(Self::RingBuffer),
            _ => None,
        }
    }

    pub(super) const fn is_per_cpu(self) -> bool {
        matches!(self, Self::PerCpuArray)
    }

    pub(super) const fn since(self) -> &'static str {
        match self {
            Self::Hash | Self::Array | Self::PerCpuArray => "Linux 4.6; to map one into memory Linux 5.5",
            Self::Xsk => "Linux 4.18 with CONFIG_XDP_SOCKETS",
            Self::RingBuffer => "Linux 5.8",
        }
    }
}

/// The shape of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapShape {
    /// What it is.
    pub kind: MapKind,
    /// Bytes of a key.
    pub key_byte: u32,
    /// Bytes of a value.
    pub value_byte: u32,
    /// Most entries; for a ring buffer its bytes, a power of two and of whole pages.
    pub most_entries: u32,
    /// Flags of BPF_MAP_CREATE.
    pub flags: u32,
}
