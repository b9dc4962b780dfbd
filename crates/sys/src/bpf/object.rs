use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd};

use object::read::elf::ElfFile64;
use object::{
    Endianness, Object as _, ObjectSection, ObjectSymbol, RelocationFlags, RelocationTarget, SectionIndex, SymbolKind,
};

use super::error::BpfError;
use super::map::Map;
use super::map_shape::{MapKind, MapShape};
use super::program::{Program, ProgramKind};

/// Bytes of a definition in the section `maps`: kind, key, value, entries, flags.
const DEFINITION_BYTE: usize = 20;

//= Linux Documentation/bpf/standardization/instruction-set.rst
const LOAD_64: u8 = 0x18;
const CALL: u8 = 0x85;
const FROM_MAP: u8 = 1;
const FROM_FUNCTION: u8 = 4;
const TO_SUBPROGRAM: u8 = 1;
//= Linux Documentation/bpf/llvm_reloc.rst
const R_BPF_64_64: u32 = 1;
const R_BPF_64_32: u32 = 10;

/// A function of the file.
#[derive(Clone, Debug)]
struct Function {
    name: String,
    section: usize,
    /// First instruction within the section.
    start: usize,
    instructions: Vec<[u8; 8]>,
}

/// What an instruction refers to.
#[derive(Clone, Debug)]
enum Reference {
    Map(String),
    /// Place in the list of functions.
    Function(usize),
}

/// A program file, checked and taken apart, not yet loaded.
#[derive(Debug)]
pub struct Object {
    file: String,
    license: String,
    shapes: BTreeMap<String, MapShape>,
    functions: Vec<Function>,
    /// Section of each program function.
    kinds: BTreeMap<usize, (ProgramKind, u32)>,
    /// (section, instruction in it)
    references: BTreeMap<(usize, usize), Reference>,
}

/// The maps of an object, by name.
#[derive(Debug)]
pub struct Maps(BTreeMap<String, Map>);

impl Maps {
    /// A map.
    ///
    /// # Panics
    /// Where the object defines none of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> &Map {
        self.0.get(name).expect("the object defines this map")
    }

    /// Takes a map out, as [`RingBuffer`](super::RingBuffer) wants it. Programs are to be loaded before.
    ///
    /// # Panics
    /// Where the object defines none of this name, or it was taken before.
    pub fn take(&mut self, name: &str) -> Map {
        self.0.remove(name).expect("the object defines this map")
    }
}

impl Object {
    /// Reads a program file; `file` is its name, for errors.
    ///
    /// Programs are functions in the sections `xdp`, `xdp/NAME`, `xdp.frags/NAME`, `tc`, `tc/NAME`; functions they call
    /// lie in `.text`. Maps are variables in the section `maps`: five 32-bit numbers, as [`MapShape`] names them.
    /// Other variables are not supported. The section `license` holds a string.
    ///
    /// # Errors
    /// [`BpfError::Object`] for all else.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Self, BpfError> {
        parse(bytes)
            .map(|mut object| {
                object.file = file.to_owned();
                object
            })
            .map_err(|found| BpfError::Object { file: file.to_owned(), found })
    }

    /// The shapes of its maps, to be changed before they are made.
    ///
    /// # Panics
    /// Where it defines none of this name.
    pub fn shape_mut(&mut self, map: &str) -> &mut MapShape {
        self.shapes.get_mut(map).expect("the object defines this map")
    }

    /// The shapes of its maps by name.
    #[must_use]
    pub const fn shapes(&self) -> &BTreeMap<String, MapShape> {
        &self.shapes
    }

    /// The names of its programs.
    pub fn programs(&self) -> impl Iterator<Item = &str> {
        self.kinds.keys().map(|&at| self.functions[at].name.as_str())
    }

    /// Makes its maps.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn create_maps(&self) -> Result<Maps, BpfError> {
        let make = |(name, shape): (&String, &MapShape)| Ok((name.clone(), Map::create(name, *shape)?));
        self.shapes.iter().map(make).collect::<Result<_, _>>().map(Maps)
    }

    /// The instructions of a program without its maps, with all it calls behind it: for a comparison of two builds.
    ///
    /// # Errors
    /// Where it has no such program.
    pub fn instructions(&self, program: &str) -> Result<Vec<u64>, BpfError> {
        let (at, _) = self.program(program)?;
        Ok(self.lay_out(at, &mut |_| 0).0)
    }

    /// Loads a program with these maps.
    ///
    /// # Errors
    /// Where there is none of this name, and where the kernel or its verifier refuses.
    pub fn load(&self, program: &str, maps: &Maps) -> Result<Program, BpfError> {
        let (at, kind) = self.program(program)?;
        let (instructions, starts) = self.lay_out(at, &mut |map| maps.get(map).as_fd().as_raw_fd());
        Program::load(program, kind, &self.license, &instructions, &starts)
    }

    fn program(&self, name: &str) -> Result<(usize, (ProgramKind, u32)), BpfError> {
        self.kinds.iter().map(|(&at, &kind)| (at, kind)).find(|&(at, _)| self.functions[at].name == name).ok_or_else(
            || {
                let there: Vec<&str> = self.programs().collect();
                BpfError::Object {
                    file: self.file.clone(),
                    found: format!("no program {name}, it has {}", there.join(", ")),
                }
            },
        )
    }

    /// Puts a program and all functions it reaches in a row, with every reference resolved; where each function begins.
    fn lay_out(&self, program: usize, descriptor: &mut dyn FnMut(&str) -> i32) -> (Vec<u64>, Vec<u32>) {
        let mut order = vec![program];
        let mut next = 0;
        while next < order.len() {
            let function = &self.functions[order[next]];
            for at in 0..function.instructions.len() {
                if let Some(Reference::Function(other)) = self.references.get(&(function.section, function.start + at))
                    && !order.contains(other)
                {
                    order.push(*other);
                }
            }
            next += 1;
        }
        let mut starts = Vec::new();
        let mut end = 0;
        for &function in &order {
            starts.push(end);
            end += self.functions[function].instructions.len() as u32;
        }
        let mut out = Vec::with_capacity(end as usize);
        for &index in &order {
            let function = &self.functions[index];
            for (at, instruction) in function.instructions.iter().enumerate() {
                let mut instruction = *instruction;
                let immediate = match self.references.get(&(function.section, function.start + at)) {
                    None => None,
                    Some(Reference::Map(map)) => {
                        instruction[1] = instruction[1] & 0xf | FROM_MAP << 4;
                        Some(descriptor(map))
                    }
                    Some(Reference::Function(other)) => {
                        let place = order
                            .iter()
                            .position(|function| function == other)
                            .expect("all that is reached is laid out");
                        let source = if instruction[0] == CALL { TO_SUBPROGRAM } else { FROM_FUNCTION };
                        instruction[1] = instruction[1] & 0xf | source << 4;
                        Some(starts[place].cast_signed() - out.len() as i32 - 1)
                    }
                };
                if let Some(immediate) = immediate {
                    instruction[4..].copy_from_slice(&immediate.to_le_bytes());
                }
                out.push(u64::from_ne_bytes(instruction));
            }
        }
        (out, starts)
    }
}

type File<'b> = ElfFile64<'b, Endianness>;

fn parse(bytes: &[u8]) -> Result<Object, String> {
    let elf = File::parse(bytes).map_err(|error| format!("no ELF file: {error}"))?;
    if elf.architecture() != object::Architecture::Bpf {
        return Err(format!("made for {:?}, not Bpf: use clang -target bpf", elf.architecture()));
    }
    if elf.is_little_endian() != cfg!(target_endian = "little") {
        return Err("made for the other byte order".to_owned());
    }
    let mut functions = Vec::new();
    let mut kinds = BTreeMap::new();
    let mut shapes = BTreeMap::new();
    let mut maps_at = BTreeMap::new();
    for symbol in elf.symbols() {
        let Some(index) = symbol.section_index() else { continue };
        let section = elf.section_by_index(index).map_err(|error| error.to_string())?;
        let (section_name, name) = (text(section.name())?, text(symbol.name())?);
        let data = section.data().map_err(|error| format!("section {section_name}: {error}"))?;
        let (start, size) = (symbol.address() as usize, symbol.size() as usize);
        if symbol.kind() == SymbolKind::Text && size > 0 {
            let code = start
                .checked_add(size)
                .and_then(|end| data.get(start..end))
                .filter(|_| start.is_multiple_of(8) && size.is_multiple_of(8));
            let code = code.ok_or_else(|| format!("function {name} does not lie in its section"))?;
            if let Some(kind) = ProgramKind::of_section(section_name) {
                kinds.insert(functions.len(), kind);
            }
            let instructions = code.chunks_exact(8).map(|bytes| bytes.try_into().unwrap_or_default()).collect();
            functions.push(Function { name: name.to_owned(), section: index.0, start: start / 8, instructions });
        } else if section_name == "maps" && symbol.kind() == SymbolKind::Data {
            maps_at.insert(symbol.index().0, name.to_owned());
            let definition = start.checked_add(DEFINITION_BYTE).and_then(|end| data.get(start..end));
            let definition =
                definition.ok_or_else(|| format!("map {name} has no definition of {DEFINITION_BYTE} B"))?;
            shapes.insert(name.to_owned(), shape(name, definition)?);
        }
    }
    let license =
        elf.section_by_name("license").map_or(Ok(&b""[..]), |section| section.data()).map_err(|e| e.to_string())?;
    let license = String::from_utf8_lossy(license).trim_end_matches('\0').to_owned();
    let references = references(&elf, &functions, &maps_at)?;
    Ok(Object { file: String::new(), license, shapes, functions, kinds, references })
}

fn text(name: object::Result<&str>) -> Result<&str, String> {
    name.map_err(|error| format!("a name cannot be read: {error}"))
}

fn shape(name: &str, definition: &[u8]) -> Result<MapShape, String> {
    let words: Vec<u32> =
        definition.chunks_exact(4).map(|bytes| u32::from_ne_bytes(bytes.try_into().unwrap_or_default())).collect();
    let &[kind, key_byte, value_byte, most_entries, flags] = words.as_slice() else {
        return Err(format!("map {name}: definition cut"));
    };
    let kind = MapKind::of_number(kind).ok_or_else(|| format!("map {name}: kind {kind} is not supported"))?;
    Ok(MapShape { kind, key_byte, value_byte, most_entries, flags })
}

fn references(
    elf: &File<'_>,
    functions: &[Function],
    maps_at: &BTreeMap<usize, String>,
) -> Result<BTreeMap<(usize, usize), Reference>, String> {
    let mut found = BTreeMap::new();
    let at_start = |section: usize, start: i64| {
        usize::try_from(start)
            .ok()
            .and_then(|start| functions.iter().position(|f| f.section == section && f.start == start))
    };
    for section in elf.sections().filter(|section| functions.iter().any(|f| f.section == section.index().0)) {
        let data = section.data().map_err(|error| error.to_string())?;
        for (offset, relocation) in section.relocations() {
            let at = offset as usize;
            let place = || format!("instruction {} of section {}", at / 8, section.name().unwrap_or("?"));
            let instruction = data
                .get(at..at + 8)
                .filter(|_| at.is_multiple_of(8))
                .ok_or_else(|| format!("{}: none there", place()))?;
            let RelocationFlags::Elf { r_type } = relocation.flags() else {
                return Err(format!("{}: no ELF relocation", place()));
            };
            let RelocationTarget::Symbol(index) = relocation.target() else {
                return Err(format!("{}: without a symbol", place()));
            };
            let symbol = elf.symbol_by_index(index).map_err(|error| error.to_string())?;
            let immediate = i64::from(immediate(instruction));
            let target = symbol.section_index().unwrap_or(SectionIndex(0)).0;
            let start = (symbol.address() / 8).cast_signed();
            let reference = match (r_type.0, instruction[0]) {
                (R_BPF_64_64, LOAD_64) if maps_at.contains_key(&index.0) => {
                    Some(Reference::Map(maps_at[&index.0].clone()))
                }
                (R_BPF_64_64, LOAD_64) => at_start(target, start + immediate / 8).map(Reference::Function),
                (R_BPF_64_32, CALL) => at_start(target, start + immediate + 1).map(Reference::Function),
                _ => None,
            };
            let name = symbol.name().ok().filter(|name| !name.is_empty()).unwrap_or("a section");
            let reference = reference.ok_or_else(|| {
                format!("{} refers to {name}: only maps and functions are supported, no other variables", place())
            })?;
            found.insert((section.index().0, at / 8), reference);
        }
    }
    // Calls within a section need no relocation.
    for function in functions {
        for (at, instruction) in function.instructions.iter().enumerate() {
            let place = (function.section, function.start + at);
            if instruction[0] == CALL && instruction[1] >> 4 == TO_SUBPROGRAM && !found.contains_key(&place) {
                let start = (place.1 as i64) + i64::from(immediate(instruction)) + 1;
                let other =
                    at_start(function.section, start).ok_or_else(|| format!("{} calls no function", function.name))?;
                found.insert(place, Reference::Function(other));
            }
        }
    }
    Ok(found)
}

fn immediate(instruction: &[u8]) -> i32 {
    i32::from_ne_bytes(instruction[4..8].try_into().unwrap_or_default())
}
