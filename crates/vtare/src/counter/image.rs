//! The program in Java and a virtual machine to run it with, as one file, for machines that have no Java.
//!
//! `jlink` takes from the JDK what the program needs; the C libraries that this was linked with come along, with their
//! loader: what runs it needs a kernel and nothing else. The file is a line ([`MAGIC`]) and an LZ4 frame; in that, for
//! each file, a line `MODE BYTES PATH` (the mode in octal, the path relative) and the bytes.

use std::fs::{self, File, Permissions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use lz4_flex::frame::{FrameDecoder, FrameEncoder};

use vtare_sys::named_file;

use super::tools::{Place, java_tool, missing_compiler, run};
use crate::failure::Failure;

/// The first line of such a file.
const MAGIC: &str = "vtare.java-image/1\n";
/// What the function and its clock need.
const MODULES: &str = "java.base,java.management";
/// Where the image has the program, and the loader of C libraries.
const JAR: &str = "counter.jar";
const LOADER: &str = "bin/ld.so";
/// Directories of shared libraries: the virtual machine's own, with those of this machine, and the machine itself.
const LIBRARIES: [&str; 2] = ["lib", "lib/server"];
/// Texts, and programs that nobody starts.
const LEFT_OUT: [&str; 4] = ["legal", "bin/keytool", "lib/jexec", "lib/jspawnhelper"];
/// The most that an image holds, unpacked: five times what a JDK of today gives.
const MOST_BYTE: u64 = 256 << 20;
const LONGEST_LINE_BYTE: u64 = 4096;

/// Makes an image of a program in `place`, where it may leave files, and returns it.
///
/// # Errors
/// [`Failure::Machine`] where a tool is missing, with the command that installs it.
pub(super) fn pack(jar: &Path, place: &Path) -> Result<PathBuf, Failure> {
    let root = place.join("image");
    let mut linker = Command::new(java_tool("jlink"));
    linker.args(["--add-modules", MODULES, "--strip-java-debug-attributes", "--no-man-pages", "--no-header-files"]);
    linker.arg("--output").arg(&root);
    run_or_name(linker)?;
    let libraries = libraries(&root)?;
    let packed = place.join("counter.image");
    let write = || -> io::Result<()> {
        let mut file = File::create(&packed)?;
        file.write_all(MAGIC.as_bytes())?;
        let mut frame = FrameEncoder::new(file);
        add(&mut frame, JAR, jar)?;
        for (name, library) in &libraries {
            add(&mut frame, name, library)?;
        }
        add_below(&mut frame, &root, &root)?;
        frame.finish()?;
        Ok(())
    };
    write().map_err(|error| Failure::Machine(format!("language java: {}: {error}", packed.display())))?;
    Ok(packed)
}

/// The C libraries of this machine that an image is linked with, and their loader, by their names there.
fn libraries(root: &Path) -> Result<Vec<(String, PathBuf)>, Failure> {
    let mut linked = Command::new("ldd");
    linked.env("LD_LIBRARY_PATH", LIBRARIES.map(|part| root.join(part).display().to_string()).join(":"));
    linked.arg(root.join("bin/java"));
    let cannot = |error: io::Error| Failure::Machine(format!("language java: {}: {error}", root.display()));
    for part in LIBRARIES {
        for entry in fs::read_dir(root.join(part)).map_err(cannot)? {
            let path = entry.map_err(cannot)?.path();
            if path.extension().is_some_and(|end| end == "so") {
                linked.arg(path);
            }
        }
    }
    let reported = run_or_name(linked)?;
    let mut found: Vec<(String, PathBuf)> = Vec::new();
    for line in reported.lines() {
        let Some((name, path)) = needed(line) else { continue };
        if !path.starts_with(root) && found.iter().all(|(known, _)| *known != name) {
            found.push((name, path));
        }
    }
    if found.iter().any(|(name, _)| name == LOADER) {
        return Ok(found);
    }
    Err(Failure::Machine(format!("language java: `ldd` names no loader of {}", root.join("bin/java").display())))
}

/// What a line of `ldd` means for an image: the name there and the file here. `NAME => PATH (0x..)` is a library,
/// `PATH (0x..)` the loader.
fn needed(line: &str) -> Option<(String, PathBuf)> {
    let (words, _) = line.trim().split_once(" (")?;
    match words.split_once(" => ") {
        Some((name, path)) => Some((format!("lib/{}", Path::new(name).file_name()?.to_str()?), PathBuf::from(path))),
        None => words.starts_with('/').then(|| (LOADER.to_owned(), PathBuf::from(words))),
    }
}

fn add_below(frame: &mut impl Write, directory: &Path, root: &Path) -> io::Result<()> {
    let mut entries = fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    entries.sort();
    for path in entries {
        let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
        if LEFT_OUT.contains(&name.as_str()) {
            continue;
        }
        if path.is_dir() {
            add_below(frame, &path, root)?;
        } else {
            add(frame, &name, &path)?;
        }
    }
    Ok(())
}

fn add(frame: &mut impl Write, name: &str, file: &Path) -> io::Result<()> {
    let content = fs::read(file)?;
    let mode = if file.metadata()?.permissions().mode() & 0o100 == 0 { 0o600 } else { 0o700 };
    writeln!(frame, "{mode:o} {} {name}", content.len())?;
    frame.write_all(&content)
}

/// An image unpacked beside itself, and the program in it; `None` where the file is no image, or cannot be read.
///
/// # Errors
/// [`Failure::Input`] where it is damaged; [`Failure::Machine`] where it cannot be unpacked here.
pub(super) fn unpacked(file: &Path) -> Result<Option<(Place, PathBuf)>, Failure> {
    let mut packed = match named_file::open(file) {
        Ok(packed) => packed,
        // What starts it names the reason.
        Err(error) if error.raw_os_error().is_some() => return Ok(None),
        Err(error) => {
            return Err(Failure::Input(format!("program: {}: {error}: name a program", file.display())));
        }
    };
    let mut magic = [0; MAGIC.len()];
    if packed.read_exact(&mut magic).is_err() || magic != *MAGIC.as_bytes() {
        return Ok(None);
    }
    // Not in the temporary directory, where programs may be forbidden.
    let beside = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let place = Place::make(beside)?;
    let unpacking = unpack(&mut BufReader::new(FrameDecoder::new(packed)), place.path());
    unpacking.map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof | io::ErrorKind::Other => {
            Failure::Input(format!("program: {}: a damaged image: {error}; build it again", file.display()))
        }
        _ => Failure::Machine(format!("program: cannot unpack {} beside it: {error}", file.display())),
    })?;
    let program = place.path().join(JAR);
    Ok(Some((place, program)))
}

fn unpack(packed: &mut impl BufRead, into: &Path) -> io::Result<()> {
    let damaged = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
    let mut left = MOST_BYTE;
    loop {
        let mut line = String::new();
        packed.by_ref().take(LONGEST_LINE_BYTE).read_line(&mut line)?;
        if line.is_empty() {
            return Ok(());
        }
        let mut words = line.strip_suffix('\n').unwrap_or_default().splitn(3, ' ');
        let mut next = || words.next().ok_or_else(|| damaged("a line without MODE BYTES PATH"));
        let (mode, byte, name) = (next()?, next()?, next()?);
        let mode = u32::from_str_radix(mode, 8).ok().filter(|mode| mode & !0o700 == 0);
        let mode = mode.ok_or_else(|| damaged("a mode that is none of its owner's"))?;
        let byte: u64 = byte.parse().map_err(|_| damaged("a length that is no number"))?;
        left = left.checked_sub(byte).ok_or_else(|| damaged("longer than an image can be"))?;
        let name = Path::new(name);
        if name.as_os_str().is_empty() || name.components().any(|part| !matches!(part, Component::Normal(_))) {
            return Err(damaged("a path that leads out of it"));
        }
        let path = into.join(name);
        fs::create_dir_all(path.parent().unwrap_or(into))?;
        let mut file = File::create_new(&path)?;
        if io::copy(&mut packed.by_ref().take(byte), &mut file)? != byte {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        file.set_permissions(Permissions::from_mode(mode))?;
    }
}

/// The command that starts the virtual machine which was unpacked with this program; `None` where none was.
pub(super) fn runtime_beside(program: &Path) -> Option<Command> {
    let root = program.parent()?;
    let loader = root.join(LOADER);
    if !loader.exists() {
        return None;
    }
    let mut command = Command::new(loader);
    let places = LIBRARIES.map(|part| root.join(part).display().to_string());
    command.arg("--library-path").arg(places.join(":")).arg(root.join("bin/java"));
    command.env_remove("LD_LIBRARY_PATH");
    Some(command)
}

/// Runs a tool and returns what it prints.
fn run_or_name(mut command: Command) -> Result<String, Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    let why = match run(&mut command) {
        Ok(Ok(printed)) => return Ok(printed),
        Ok(Err(words)) => format!("{name} reports: {words}"),
        Err(_) => format!("found no {name}"),
    };
    Err(missing_compiler(&why))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An image of these lines with their contents.
    fn image(place: &Place, entries: &[(&str, &str)]) -> PathBuf {
        let file = place.path().join("some.image");
        let mut frame = FrameEncoder::new(Vec::new());
        for (line, content) in entries {
            frame.write_all(format!("{line}\n{content}").as_bytes()).expect("memory");
        }
        let packed = frame.finish().expect("memory");
        fs::write(&file, [MAGIC.as_bytes(), &packed].concat()).expect("the directory is ours");
        file
    }

    fn place() -> Place {
        Place::make(&std::env::temp_dir()).expect("the temporary directory is writable")
    }

    #[test]
    fn an_image_unpacks_beside_itself_with_its_modes_and_is_gone_when_dropped() {
        let around = place();
        let file = image(&around, &[("600 3 counter.jar", "jar"), ("700 6 bin/ld.so", "loader"), ("600 0 empty", "")]);
        let (unpacked, program) = unpacked(&file).expect("it is whole").expect("it is an image");
        assert_eq!(fs::read(&program).ok().as_deref(), Some(&b"jar"[..]));
        let loader = unpacked.path().join(LOADER);
        assert_eq!(loader.metadata().map(|facts| facts.permissions().mode() & 0o777).ok(), Some(0o700));
        let command = runtime_beside(&program).expect("a loader lies beside it");
        assert_eq!(command.get_program(), loader);
        assert!(runtime_beside(&file).is_none());
        drop(unpacked);
        assert!(!program.exists() && file.exists());
    }

    #[test]
    fn a_damaged_image_is_refused() {
        let around = place();
        for (line, why) in [
            ("600 9 short", "end"),
            ("600 3", "MODE BYTES PATH"),
            ("600 x name", "no number"),
            ("4755 3 name", "mode"),
            ("600 3 ../name", "leads out"),
            ("600 3 /name", "leads out"),
            ("600 999999999999 name", "longer"),
        ] {
            let error = unpacked(&image(&around, &[(line, "jar")])).err().expect(line);
            assert!(error.code() == 2 && error.to_string().contains(why), "{line}: {error}");
        }
        let file = image(&around, &[("600 3 counter.jar", "jar")]);
        let whole = fs::read(&file).expect("it is there");
        fs::write(&file, &whole[..whole.len() - 6]).expect("it is ours");
        assert_eq!(unpacked(&file).err().expect("cut").code(), 2);
        fs::write(&file, "PK").expect("it is ours");
        assert!(unpacked(&file).expect("no image is no error").is_none());
    }

    #[test]
    fn libraries_and_the_loader_are_read_from_what_ldd_prints() {
        let found = |line| needed(line).map(|(name, path)| (name, path.display().to_string()));
        let pair = |name: &str, path: &str| Some((name.to_owned(), path.to_owned()));
        assert_eq!(
            found("\tlibz.so.1 => /lib/x86_64/libz.so.1 (0x7f)"),
            pair("lib/libz.so.1", "/lib/x86_64/libz.so.1")
        );
        assert_eq!(found("\t/lib64/ld-linux-x86-64.so.2 (0x7f)"), pair(LOADER, "/lib64/ld-linux-x86-64.so.2"));
        for nothing in ["\tlinux-vdso.so.1 (0x7ffc)", "/a/image/lib/libjava.so:", "\tstatically linked", ""] {
            assert_eq!(found(nothing), None, "{nothing}");
        }
    }
}
