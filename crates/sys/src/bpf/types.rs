//! Just enough type information (BTF) for the verifier to accept callbacks: that each subprogram is a static function.

use std::os::fd::OwnedFd;

use super::call::{self, Attributes};
use super::error::BpfError;

const MAGIC: u16 = 0xeb9f;
const INT: u32 = 1;
const FUNC: u32 = 12;
const FUNC_PROTO: u32 = 13;
const STATIC: u32 = 0;
/// Number of the first function; 1 is `int`, 2 the prototype that all share.
pub(super) const FIRST_FUNCTION: u32 = 3;

/// Makes the description of `functions` static functions that return `int`.
//= Linux Documentation/bpf/btf.rst
pub(super) fn describe(functions: u32) -> Vec<u8> {
    let mut names = b"\0int\0".to_vec();
    let mut types: Vec<u32> = Vec::new();
    // name, info (kind << 24 | vlen), size or type
    types.extend([1, INT << 24, 4, 1 << 24 | 32]);
    types.extend([0, FUNC_PROTO << 24, 1]);
    for index in 0..functions {
        let name = names.len() as u32;
        names.extend_from_slice(format!("f{index}\0").as_bytes());
        types.extend([name, FUNC << 24 | STATIC, 2]);
    }
    let types_byte = (types.len() * 4) as u32;
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&MAGIC.to_ne_bytes());
    bytes.extend_from_slice(&[1, 0]);
    for word in [24, 0, types_byte, types_byte, names.len() as u32] {
        bytes.extend_from_slice(&u32::to_ne_bytes(word));
    }
    bytes.extend(types.iter().flat_map(|word| word.to_ne_bytes()));
    bytes.extend_from_slice(&names);
    bytes
}

#[repr(C)]
#[derive(Default)]
struct Load {
    bytes: u64,
    log: u64,
    size: u32,
    log_size: u32,
    log_level: u32,
    _end: u32,
}
// SAFETY: the layout of BPF_BTF_LOAD, whose next field (a number) is 0; `load` keeps the bytes alive.
unsafe impl Attributes for Load {}

pub(super) fn load(bytes: &[u8]) -> Result<OwnedFd, BpfError> {
    let mut arguments = Load { bytes: call::address(bytes.as_ptr()), size: bytes.len() as u32, ..Load::default() };
    call::open(call::BTF_LOAD, &mut arguments).map_err(|source| {
        BpfError::of(source, "describe functions to the kernel", "CAP_BPF", "Linux 4.18 with CONFIG_BPF_SYSCALL")
    })
}
