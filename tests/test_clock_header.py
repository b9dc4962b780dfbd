"""vtare_clock.h declares what the Rust sources export, type by type, and what Python and Java declare."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from vtare.clock import _declarations

C_TYPES = {
    "u32": "uint32_t",
    "u64": "uint64_t",
    "i64": "int64_t",
    "f64": "double",
    "usize": "size_t",
    "c_int": "int",
    "*const c_char": "const char *",
    "*mut c_char": "char *",
    "*mut u64": "uint64_t *",
}
JAVA_TYPES = {"uint32_t": "int", "uint64_t": "long", "int64_t": "long", "double": "double", "char": "byte"}
FUNCTION = re.compile(r"pub (?:unsafe )?extern \"C\" fn (vtare_\w+)\(([^)]*)\)(?: -> ([^{]+?))? \{")
SLEEP = re.compile(r"pub fn (vtare_\w+)\(([^)]*)\) = \w+;")
STRUCTURE = re.compile(r"#\[repr\(C\)\]\n(?:#\[[^\n]*\n)*pub struct (Vtare\w+) \{(.*?)\n\}", re.DOTALL)


def plain_header(root: Path) -> str:
    """The header's declarations without comments, preprocessor lines and C++."""
    text = (root / "crates/capi/include/vtare_clock.h").read_text(encoding="utf-8")
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    text = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    text = text.replace('extern "C" {', "").replace(" VTARE_NOEXCEPT", "").strip().removesuffix("}")
    return " ".join(text.split())


def rust_sources(root: Path) -> str:
    """The crate's sources, one after the other."""
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted((root / "crates/capi/src").glob("*.rs")))


def snake(name: str) -> str:
    """`VtareClockInfo` as `vtare_clock_info`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def c_type(rust: str) -> str:
    """A Rust type as the header writes it, with a trailing space where a name may follow."""
    rust = rust.strip()
    if rust in C_TYPES:
        written = C_TYPES[rust]
        return written if written.endswith("*") else written + " "
    pointer = re.fullmatch(r"\*(const|mut) (Vtare\w+)", rust)
    assert pointer, f"no C type known for {rust!r}"
    return f"{'const ' if pointer[1] == 'const' else ''}struct {snake(pointer[2])} *"


def prototype(name: str, arguments: str, answer: str) -> str:
    """A Rust signature as a C prototype."""
    pairs = [part.split(":", 1) for part in arguments.split(",") if part.strip()]
    listed = ", ".join(c_type(kind) + argument.strip() for argument, kind in pairs) or "void"
    return f"{c_type(answer)}{name}({listed});"


def exported(sources: str) -> dict[str, str]:
    """Every exported function with its C prototype."""
    found = {m[1]: prototype(m[1], m[2], m[3] or "") for m in FUNCTION.finditer(sources)}
    return found | {m[1]: prototype(m[1], m[2], "c_int") for m in SLEEP.finditer(sources)}


def structures(text: str) -> dict[str, list[str]]:
    """Every structure of the plain header with its fields."""
    found = re.finditer(r"struct (\w+) \{ ([^}]*?) \};", text)
    return {m[1]: [field.strip() for field in m[2].split(";") if field.strip()] for m in found}


def rust_fields(body: str) -> list[str]:
    """The fields of a Rust structure as the header writes them."""
    fields = []
    for name, kind in re.findall(r"^    pub (\w+): ([^\n]+),$", body, re.MULTILINE):
        array = re.fullmatch(r"\[c_char; (\d+)\]", kind)
        fields.append(f"char {name}[{array[1]}]" if array else f"{c_type(kind)}{name}")
    return fields


def test_every_exported_function_stands_in_the_header_with_its_types(root: Path) -> None:
    header = plain_header(root)
    functions = exported(rust_sources(root))
    assert len(functions) > 15
    assert [text for text in functions.values() if text not in header] == []
    assert set(re.findall(r"(vtare_\w+)\((?=[^;{]*\);)", header)) == set(functions)


def test_every_structure_has_the_same_fields_in_rust_and_in_the_header(root: Path) -> None:
    declared = structures(plain_header(root))
    rust = {snake(m[1]): rust_fields(m[2]) for m in STRUCTURE.finditer(rust_sources(root))}
    assert rust == declared


def test_the_names_other_programs_rely_on_are_there(root: Path) -> None:
    header = plain_header(root)
    for stable in (
        "uint64_t vtare_now_ns(void);",
        "uint64_t vtare_now_ordered_ns(void);",
        "int vtare_sleep_ns(uint64_t span_ns);",
        "int vtare_sleep_until_ns(uint64_t deadline_ns);",
        "int vtare_clock_info(struct vtare_clock_info *info);",
    ):
        assert stable in header


def test_python_declares_what_the_header_does(root: Path) -> None:
    assert " ".join(_declarations.DECLARATIONS.split()) == plain_header(root).strip()
    text = (root / "crates/capi/include/vtare_clock.h").read_text(encoding="utf-8")
    assert f"#define VTARE_CLOCK_ABI_VERSION {_declarations.ABI_VERSION}\n" in text


@pytest.mark.parametrize(
    ("java", "c"),
    [
        ("Info", "vtare_clock_info"),
        ("Result", "vtare_sleep_result"),
        ("Options", "vtare_sleep_options"),
        ("Beat", "vtare_ticker"),
        ("Utc", "vtare_utc_interval"),
    ],
)
def test_java_declares_the_same_structures_as_the_header(root: Path, java: str, c: str) -> None:
    text = (root / "bindings/java/src/main/java/vtare/clock/Library.java").read_text(encoding="utf-8")
    found = re.search(
        rf"@FieldOrder\(\{{([^}}]*)\}}\)\s+public static final class {java} extends[^{{]*\{{(.*?)\n    \}}",
        text,
        re.DOTALL,
    )
    assert found
    wanted = [re.fullmatch(r"(\w+) (\w+)(?:\[(\d+)\])?", field) for field in structures(plain_header(root))[c]]
    assert re.findall(r'"(\w+)"', found[1]) == [field[2] for field in wanted if field]
    lines = [line.strip() for line in found[2].strip().splitlines()]
    assert lines == [
        f"public byte[] {field[2]} = new byte[{field[3]}];"
        if field[3]
        else f"public {JAVA_TYPES[field[1]]} {field[2]};"
        for field in wanted
        if field
    ]


def test_java_names_every_event_of_the_header(root: Path) -> None:
    text = (root / "bindings/java/src/main/java/vtare/clock/VtareClock.java").read_text(encoding="utf-8")
    fields = structures(plain_header(root))["vtare_clock_info"]
    events = [field.split()[1].removeprefix("events_") for field in fields if " events_" in field]
    assert re.findall(r'events\.put\("(\w+)", info\.events_\1\);', text) == events


def test_java_declares_functions_of_the_header_only_and_the_same_interface(root: Path) -> None:
    text = (root / "bindings/java/src/main/java/vtare/clock/Library.java").read_text(encoding="utf-8")
    declared = set(re.findall(r"static native \w+ (vtare_\w+)\(", text))
    assert declared
    assert declared <= set(exported(rust_sources(root)))
    assert f"ABI_VERSION = {_declarations.ABI_VERSION};" in text


def test_a_changed_type_is_noticed() -> None:
    source = 'pub extern "C" fn vtare_x(a: u64, b: *mut VtareTicker) -> c_int {'
    assert exported(source) == {"vtare_x": "int vtare_x(uint64_t a, struct vtare_ticker *b);"}
    assert exported(source.replace("u64", "i64")) != exported(source)
