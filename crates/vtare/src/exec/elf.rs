//! As much of a program file as tells whether a library can be put under it. Pure: bytes in, facts out.

use std::io;

/// What a program file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Image {
    /// An ELF program.
    Elf(Elf),
    /// A script, with the interpreter and the one argument its first line names.
    Script {
        /// The interpreter's path.
        interpreter: String,
        /// What follows it on the line.
        argument: Option<String>,
    },
    /// Neither.
    Other,
}

/// What an ELF program needs and is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Elf {
    /// 64-bit.
    pub(super) wide: bool,
    /// For the processor that this program was built for.
    pub(super) native: bool,
    /// The dynamic linker it asks for (PT_INTERP); `None`: a static program.
    pub(super) linker: Option<String>,
    /// Made by Go's own linker (its build id note).
    pub(super) go: bool,
}

/// The first bytes of a file that the kernel looks at for a script's interpreter (BINPRM_BUF_SIZE).
const HEAD: usize = 256;
const PT_INTERP: u32 = 3;
const PT_NOTE: u32 = 4;
/// Program headers beyond this many are not looked at; real programs have about a dozen.
const MOST_HEADERS: u16 = 64;
/// Bytes of one note segment or linker path that are looked at.
const MOST_BYTES: u64 = 4096;
/// `e_machine` of the processors that vtare is built for.
const MACHINE: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };

/// Reads what stands at an offset, up to a number of bytes.
pub(super) trait ReadAt {
    /// The bytes from `offset`, fewer where the file ends before.
    ///
    /// # Errors
    /// Where the file cannot be read.
    fn read_at(&self, offset: u64, most: usize) -> io::Result<Vec<u8>>;
}

impl ReadAt for std::fs::File {
    fn read_at(&self, offset: u64, most: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; most];
        let mut filled = 0;
        while filled < most {
            match std::os::unix::fs::FileExt::read_at(self, &mut bytes[filled..], offset + filled as u64)? {
                0 => break,
                more => filled += more,
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }
}

impl ReadAt for [u8] {
    fn read_at(&self, offset: u64, most: usize) -> io::Result<Vec<u8>> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(self.len());
        Ok(self[from..self.len().min(from.saturating_add(most))].to_vec())
    }
}

/// Tells what a program file is.
///
/// # Errors
/// Where the file cannot be read.
pub(super) fn inspect(file: &(impl ReadAt + ?Sized)) -> io::Result<Image> {
    let head = file.read_at(0, HEAD)?;
    if let Some(line) = head.strip_prefix(b"#!") {
        return Ok(script(line).unwrap_or(Image::Other));
    }
    match elf(file, &head)? {
        Some(elf) => Ok(Image::Elf(elf)),
        None => Ok(Image::Other),
    }
}

/// The interpreter on a script's first line, as the kernel parts it: the path, and all the rest as one argument
/// (execve(2)).
fn script(line: &[u8]) -> Option<Image> {
    let end = line.iter().position(|byte| *byte == b'\n').unwrap_or(line.len());
    let text = String::from_utf8_lossy(&line[..end]);
    let text = text.trim_matches([' ', '\t', '\r', '\0']);
    let (interpreter, argument) = text.split_once([' ', '\t']).unwrap_or((text, ""));
    let argument = argument.trim_start_matches([' ', '\t']);
    (!interpreter.is_empty()).then(|| Image::Script {
        interpreter: interpreter.to_owned(),
        argument: (!argument.is_empty()).then(|| argument.to_owned()),
    })
}

fn elf(file: &(impl ReadAt + ?Sized), head: &[u8]) -> io::Result<Option<Elf>> {
    let Some(header) = Header::parse(head) else { return Ok(None) };
    let mut elf = Elf { wide: header.wide, native: header.native, linker: None, go: false };
    for at in 0..header.count.min(MOST_HEADERS) {
        let offset = header.table.saturating_add(u64::from(at) * u64::from(header.entry));
        let entry = file.read_at(offset, header.entry.into())?;
        let Some((kind, offset, bytes)) = header.segment(&entry) else { break };
        let read = || file.read_at(offset, bytes.min(MOST_BYTES) as usize);
        match kind {
            PT_INTERP => {
                let path = read()?;
                let end = path.iter().position(|byte| *byte == 0).unwrap_or(path.len());
                elf.linker = Some(String::from_utf8_lossy(&path[..end]).into_owned());
            }
            PT_NOTE => elf.go |= has_go_note(&read()?),
            _ => {}
        }
    }
    Ok(Some(elf))
}

/// What the ELF header says of the program headers.
struct Header {
    wide: bool,
    native: bool,
    table: u64,
    entry: u16,
    count: u16,
}

impl Header {
    /// `None` where this is no little-endian ELF file.
    fn parse(head: &[u8]) -> Option<Self> {
        let wide = match head.get(..6)? {
            [0x7f, b'E', b'L', b'F', 2, 1] => true,
            [0x7f, b'E', b'L', b'F', 1, 1] => false,
            _ => return None,
        };
        let native = wide && u16_at(head, 18)? == MACHINE;
        let (table, entry, count) = if wide { (u64_at(head, 32)?, 54, 56) } else { (u32_at(head, 28)?.into(), 42, 44) };
        Some(Self { wide, native, table, entry: u16_at(head, entry)?, count: u16_at(head, count)? })
    }

    /// Kind, offset and length of the segment that a program header describes.
    fn segment(&self, entry: &[u8]) -> Option<(u32, u64, u64)> {
        let kind = u32_at(entry, 0)?;
        if self.wide {
            Some((kind, u64_at(entry, 8)?, u64_at(entry, 32)?))
        } else {
            Some((kind, u32_at(entry, 4)?.into(), u32_at(entry, 16)?.into()))
        }
    }
}

/// Whether one of these notes is Go's build id: owner `Go`, type 4.
fn has_go_note(mut notes: &[u8]) -> bool {
    let padded = |length: u32| (length as usize).next_multiple_of(4);
    while let (Some(owner), Some(value), Some(kind)) = (u32_at(notes, 0), u32_at(notes, 4), u32_at(notes, 8)) {
        if kind == 4 && notes.get(12..16) == Some(b"Go\0\0") {
            return true;
        }
        let Some(rest) = notes.get(12 + padded(owner) + padded(value)..) else { return false };
        notes = rest;
    }
    false
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A 64-bit program with these segments.
    fn program(segments: &[(u32, &[u8])]) -> Vec<u8> {
        let mut file = vec![0_u8; 64 + 56 * segments.len()];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        file[18..20].copy_from_slice(&MACHINE.to_le_bytes());
        file[32..40].copy_from_slice(&64_u64.to_le_bytes());
        file[54..56].copy_from_slice(&56_u16.to_le_bytes());
        file[56..58].copy_from_slice(&(segments.len() as u16).to_le_bytes());
        for (at, (kind, content)) in segments.iter().enumerate() {
            let (entry, offset) = (64 + 56 * at, file.len() as u64);
            file[entry..entry + 4].copy_from_slice(&kind.to_le_bytes());
            file[entry + 8..entry + 16].copy_from_slice(&offset.to_le_bytes());
            file[entry + 32..entry + 40].copy_from_slice(&(content.len() as u64).to_le_bytes());
            file.extend_from_slice(content);
        }
        file
    }

    fn elf_of(file: &[u8]) -> Elf {
        match inspect(file).expect("bytes can be read") {
            Image::Elf(elf) => elf,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_dynamic_program_names_its_linker_and_a_static_one_none() {
        let dynamic = elf_of(&program(&[(1, b"code"), (PT_INTERP, b"/lib64/ld-linux-x86-64.so.2\0")]));
        assert_eq!(dynamic.linker.as_deref(), Some("/lib64/ld-linux-x86-64.so.2"));
        assert!(dynamic.wide && dynamic.native && !dynamic.go);
        assert_eq!(elf_of(&program(&[(1, b"code")])).linker, None);
    }

    #[test]
    fn gos_note_is_found_behind_another_one() {
        let gnu = b"\x04\0\0\0\x02\0\0\0\x03\0\0\0GNU\0ab\0\0";
        let go = b"\x04\0\0\0\x05\0\0\0\x04\0\0\0Go\0\0build\0\0\0";
        assert!(elf_of(&program(&[(PT_NOTE, &[gnu.as_slice(), go].concat())])).go);
        assert!(!elf_of(&program(&[(PT_NOTE, gnu)])).go);
    }

    #[test]
    fn a_32_bit_program_and_one_for_another_processor_are_told_apart() {
        let mut file = program(&[]);
        file[18] = 0xf3;
        let elf = elf_of(&file);
        assert!(elf.wide && !elf.native);
        let mut narrow = vec![0_u8; 52 + 32];
        narrow[..6].copy_from_slice(b"\x7fELF\x01\x01");
        narrow[18] = 3;
        narrow[28] = 52;
        narrow[42] = 32;
        narrow[44] = 1;
        narrow[52] = PT_INTERP as u8;
        let elf = elf_of(&narrow);
        assert!(!elf.wide && !elf.native && elf.linker.is_some());
    }

    #[test]
    fn a_script_names_its_interpreter_and_one_argument() {
        let script = |text: &str| inspect(text.as_bytes()).expect("bytes can be read");
        let found = |interpreter: &str, argument: Option<&str>| Image::Script {
            interpreter: interpreter.to_owned(),
            argument: argument.map(str::to_owned),
        };
        assert_eq!(script("#!/bin/sh\nexit\n"), found("/bin/sh", None));
        assert_eq!(script("#! /usr/bin/env python3 -u \n"), found("/usr/bin/env", Some("python3 -u")));
        assert_eq!(script("#!/bin/sh"), found("/bin/sh", None));
        assert_eq!(script("#!\n/bin/sh"), Image::Other);
        assert_eq!(script("echo hello\n"), Image::Other);
        assert_eq!(script(""), Image::Other);
    }

    #[test]
    fn this_test_itself_is_a_native_dynamic_program() {
        let file = std::fs::File::open("/proc/self/exe").expect("it runs");
        let Image::Elf(elf) = inspect(&file).expect("it can be read") else { panic!("not ELF") };
        assert!(elf.native && elf.wide && !elf.go && elf.linker.is_some());
    }

    proptest! {
        #[test]
        fn no_file_brings_it_down(mut bytes in prop::collection::vec(any::<u8>(), 0..400), elf: bool) {
            if elf && bytes.len() > 6 {
                bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
            }
            inspect(bytes.as_slice()).expect("bytes can be read");
        }
    }
}
