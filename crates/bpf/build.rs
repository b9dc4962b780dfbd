//! Reads the structs and enums of the kernel programs and writes `layout.rs`: where each field lies, for the Rust side
//! of the maps. Understands the C that these files have, and ends the build at any other.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// Bytes that a type takes, and what its address is a multiple of.
#[derive(Clone, Copy)]
struct Extent {
    byte: usize,
    align: usize,
}

/// What a file declares, and what its headers did.
#[derive(Clone, Default)]
struct Declared {
    structs: BTreeMap<String, Extent>,
    constants: BTreeMap<String, usize>,
}

fn main() {
    let files = ["af_xdp", "capture", "link_counter", "probe", "reflect", "throughput"];
    let mut shared = Declared::default();
    let _ = layout_of(&code("wire.h"), &mut shared);
    let mut modules = String::new();
    for name in files {
        let inside = layout_of(&code(&format!("{name}.c")), &mut shared.clone());
        let _ = write!(modules, "/// Of `{name}.c`.\npub mod {name} {{\n{inside}}}\n");
    }
    let to = std::env::var("OUT_DIR").expect("cargo names it");
    std::fs::write(Path::new(&to).join("layout.rs"), modules).expect("the directory is cargo's");
}

/// A source without its comments.
fn code(file: &str) -> String {
    println!("cargo::rerun-if-changed={file}");
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{file}: {error}"));
    let mut pieces = text.split("/*");
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |code, piece| code + piece.split_once("*/").unwrap_or_else(|| panic!("{file}: no */")).1)
}

/// Modules for the structs and constants for the enums of this code, in its order.
fn layout_of(code: &str, declared: &mut Declared) -> String {
    let mut text = String::new();
    let mut rest = code;
    while let Some(at) = ["\nstruct ", "\nenum {"].iter().filter_map(|word| rest.find(word)).min() {
        let (head, after) = rest[at..].split_once('{').expect("a body follows");
        let (body, behind) =
            after.split_once("\n}").filter(|_| head.contains("struct")).or(after.split_once('}')).expect("it ends");
        match head.trim().strip_prefix("struct ") {
            // A function that takes or gives one.
            Some(head) if head.contains(['(', '*', ';', '=']) => rest = after,
            Some(name) => {
                text += &layout_of_struct(name.trim(), body, declared);
                rest = behind;
            }
            None => {
                text += &layout_of_enum(body, declared);
                rest = behind;
            }
        }
    }
    text
}

/// A module with the place of each field: its 64-bit word, or its byte where not all fields are made of those.
fn layout_of_struct(name: &str, body: &str, declared: &mut Declared) -> String {
    let (mut end, mut align, mut fields) = (0_usize, 1, Vec::new());
    for line in body.split(';').map(str::trim).filter(|line| !line.is_empty()) {
        if line.contains('*') {
            // What has a pointer lies in no map.
            return String::new();
        }
        let words = if line.starts_with("struct ") { 2 } else { 1 };
        let at = line.match_indices(' ').nth(words - 1).map_or(line.len(), |(at, _)| at);
        let (kind, names) = line.split_at(at);
        let of =
            extent(kind, declared).unwrap_or_else(|| panic!("struct {name}: `{line}` is no field that is understood"));
        for field in names.split(',').map(str::trim) {
            let (field, count) = match field.split_once('[') {
                Some((field, count)) => (field, value(count.trim_end_matches(']'), declared)),
                None => (field, 1),
            };
            end = end.next_multiple_of(of.align);
            fields.push((field.to_owned(), end, of));
            end += of.byte * count;
            align = align.max(of.align);
        }
    }
    end = end.next_multiple_of(align);
    declared.structs.insert(name.to_owned(), Extent { byte: end, align });
    let words = fields.iter().all(|(_, at, _)| at % 8 == 0) && end % 8 == 0;
    let mut text = format!(
        "/// Of `struct {name}`.\npub mod {name} {{\n/// Its size, in bytes.\npub const BYTE: usize = {end};\n"
    );
    if words {
        let _ = write!(text, "/// Its size, in 64-bit words.\npub const WORDS: usize = {};\n", end / 8);
    }
    for (field, at, _) in fields.iter().filter(|(field, ..)| !field.starts_with('_')) {
        let (unit, suffix, at) = if words { ("word", "", at / 8) } else { ("byte", "_AT", *at) };
        let upper = field.to_uppercase();
        let _ = write!(text, "/// The first {unit} of `{field}`.\npub const {upper}{suffix}: usize = {at};\n");
    }
    text + "}\n"
}

fn layout_of_enum(body: &str, declared: &mut Declared) -> String {
    let (mut next, mut text) = (0, String::new());
    for entry in body.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        let (name, at) = match entry.split_once('=') {
            Some((name, stated)) => (name.trim(), value(stated, declared)),
            None => (entry, next),
        };
        declared.constants.insert(name.to_owned(), at);
        let _ = write!(text, "/// As C has it.\npub const {name}: usize = {at};\n");
        next = at + 1;
    }
    text
}

fn extent(kind: &str, declared: &Declared) -> Option<Extent> {
    let byte = match kind.trim() {
        "u64" => 8,
        "u32" | "s32" => 4,
        "u16" => 2,
        "u8" => 1,
        other => return other.strip_prefix("struct ").and_then(|name| declared.structs.get(name.trim())).copied(),
    };
    Some(Extent { byte, align: byte })
}

/// The value of numbers and known names with `<<`, `+`, `-`, `*` and brackets, as C has them.
fn value(text: &str, declared: &Declared) -> usize {
    let text = text.trim();
    for operator in ["<<", "+", "-", "*"] {
        let mut depth = 0;
        // The last one outside of brackets binds least.
        for (at, c) in text.char_indices().rev() {
            depth += usize::from(c == ')');
            depth -= usize::from(c == '(');
            if depth == 0 && at > 0 && text[at..].starts_with(operator) {
                let (left, right) = (value(&text[..at], declared), value(&text[at + operator.len()..], declared));
                return match operator {
                    "<<" => left << right,
                    "+" => left + right,
                    "-" => left - right,
                    _ => left * right,
                };
            }
        }
    }
    if let Some(inside) = text.strip_prefix('(').and_then(|text| text.strip_suffix(')')) {
        return value(inside, declared);
    }
    if let Some(hex) = text.strip_prefix("0x") {
        return usize::from_str_radix(hex, 16).unwrap_or_else(|_| panic!("`{text}` is no number"));
    }
    text.parse()
        .ok()
        .or_else(|| declared.constants.get(text).copied())
        .unwrap_or_else(|| panic!("`{text}` is not known"))
}
