//! As much of a program file as shows whether a library can be put under it.

use object::LittleEndian;
use object::elf::{ELF_NOTE_GO, EM_AARCH64, EM_X86_64, FileHeader32, FileHeader64, Machine, NT_GO_BUILD_ID};
use object::read::elf::{FileHeader, ProgramHeader};
use object::read::{ReadCache, ReadRef};
use std::fs::File;
use std::io::{self, Read};

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

/// The first bytes of a file in which the kernel looks for a script's interpreter (BINPRM_BUF_SIZE).
const HEAD: u64 = 256;
/// Segments of notes, and paths of linkers, that are longer are not read.
const MOST_BYTES: u64 = 4096;
/// The processor that vtare is built for.
const MACHINE: Machine = if cfg!(target_arch = "aarch64") { EM_AARCH64 } else { EM_X86_64 };

/// Finds what a program file is.
///
/// # Errors
/// Where the file cannot be read.
pub(super) fn inspect(file: &File) -> io::Result<Image> {
    let mut head = Vec::new();
    file.take(HEAD).read_to_end(&mut head)?;
    Ok(image(&head, &ReadCache::new(file)))
}

/// What a file is, from its first bytes and all of it.
fn image<'data>(head: &[u8], file: impl ReadRef<'data>) -> Image {
    if let Some(line) = head.strip_prefix(b"#!") {
        return script(line).unwrap_or(Image::Other);
    }
    let elf = elf::<FileHeader64<LittleEndian>>(file).or_else(|| elf::<FileHeader32<LittleEndian>>(file));
    elf.map_or(Image::Other, Image::Elf)
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

/// `None` where this is no little-endian ELF file of that width. Segments that cannot be read are left out.
fn elf<'data, Header: FileHeader<Endian = LittleEndian>>(file: impl ReadRef<'data>) -> Option<Elf> {
    let header = Header::parse(file).ok()?;
    let endian = header.endian().ok()?;
    let wide = header.is_type_64();
    let mut elf = Elf { wide, native: wide && header.e_machine(endian) == MACHINE, linker: None, go: false };
    for segment in header.program_headers(endian, file).unwrap_or_default() {
        if segment.p_filesz(endian).into() > MOST_BYTES {
            continue;
        }
        if let Ok(Some(path)) = segment.interpreter(endian, file) {
            elf.linker = Some(String::from_utf8_lossy(path).into_owned());
        }
        if let Ok(Some(mut notes)) = segment.notes(endian, file) {
            while let Ok(Some(note)) = notes.next() {
                elf.go |= note.name() == ELF_NOTE_GO && note.n_type(endian) == NT_GO_BUILD_ID;
            }
        }
    }
    Some(elf)
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::elf::{PT_INTERP, PT_LOAD, PT_NOTE, ProgramType};
    use proptest::prelude::*;

    /// A 64-bit program with these segments.
    fn program(segments: &[(ProgramType, &[u8])]) -> Vec<u8> {
        let mut file = vec![0_u8; 64 + 56 * segments.len()];
        file[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        file[18..20].copy_from_slice(&MACHINE.0.to_le_bytes());
        file[32..40].copy_from_slice(&64_u64.to_le_bytes());
        file[54..56].copy_from_slice(&56_u16.to_le_bytes());
        file[56..58].copy_from_slice(&(segments.len() as u16).to_le_bytes());
        for (at, (kind, content)) in segments.iter().enumerate() {
            let (entry, offset) = (64 + 56 * at, file.len() as u64);
            file[entry..entry + 4].copy_from_slice(&kind.0.to_le_bytes());
            file[entry + 8..entry + 16].copy_from_slice(&offset.to_le_bytes());
            file[entry + 32..entry + 40].copy_from_slice(&(content.len() as u64).to_le_bytes());
            file.extend_from_slice(content);
        }
        file
    }

    fn elf_of(file: &[u8]) -> Elf {
        match image(file, file) {
            Image::Elf(elf) => elf,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_dynamic_program_names_its_linker_and_a_static_one_none() {
        let dynamic = elf_of(&program(&[(PT_LOAD, b"code"), (PT_INTERP, b"/lib64/ld-linux-x86-64.so.2\0")]));
        assert_eq!(dynamic.linker.as_deref(), Some("/lib64/ld-linux-x86-64.so.2"));
        assert!(dynamic.wide && dynamic.native && !dynamic.go);
        assert_eq!(elf_of(&program(&[(PT_LOAD, b"code")])).linker, None);
    }

    #[test]
    fn gos_note_is_found_behind_another_one() {
        let gnu = b"\x04\0\0\0\x02\0\0\0\x03\0\0\0GNU\0ab\0\0";
        let go = b"\x04\0\0\0\x05\0\0\0\x04\0\0\0Go\0\0build\0\0\0";
        assert!(elf_of(&program(&[(PT_NOTE, &[gnu.as_slice(), go].concat())])).go);
        assert!(!elf_of(&program(&[(PT_NOTE, gnu)])).go);
    }

    #[test]
    fn a_32_bit_program_and_one_for_another_processor_are_distinguished() {
        let mut file = program(&[]);
        file[18] = 0xf3;
        let elf = elf_of(&file);
        assert!(elf.wide && !elf.native);
        let mut narrow = [vec![0_u8; 52 + 32], b"/lib/ld-linux.so.2\0".to_vec()].concat();
        narrow[..7].copy_from_slice(b"\x7fELF\x01\x01\x01");
        narrow[18] = 3;
        narrow[28] = 52;
        narrow[42] = 32;
        narrow[44] = 1;
        narrow[52] = PT_INTERP.0 as u8;
        narrow[56] = 84;
        narrow[68] = 19;
        let elf = elf_of(&narrow);
        assert!(!elf.wide && !elf.native);
        assert_eq!(elf.linker.as_deref(), Some("/lib/ld-linux.so.2"));
    }

    #[test]
    fn a_script_names_its_interpreter_and_one_argument() {
        let script = |text: &str| image(text.as_bytes(), text.as_bytes());
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
            if elf && bytes.len() > 7 {
                bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
            }
            image(&bytes, bytes.as_slice());
        }
    }
}
