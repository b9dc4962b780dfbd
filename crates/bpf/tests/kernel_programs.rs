//! The kernel programs in the tree are those of their sources.

use std::path::{Path, PathBuf};
use std::process::Command;

use vtare_bpf::layout::{af_xdp, capture, link_counter, probe, reflect, throughput};
use vtare_sys::bpf::Object;

/// The release whose instructions are in the tree.
const CLANG: &str = "clang version 14.";

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_path_buf()
}

fn objects(directory: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        directory.read_dir().expect("it is there").map(|entry| entry.expect("it is readable").path()).collect();
    found.retain(|path| path.to_string_lossy().ends_with(".bpf.o"));
    found.sort();
    found
}

fn read(path: &Path) -> Object {
    let bytes = std::fs::read(path).expect("it is there");
    Object::parse(&path.display().to_string(), &bytes).expect("it can be loaded")
}

#[test]
fn every_object_is_what_its_source_gives() {
    let version = Command::new("clang").arg("--version").output();
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    if !version.contains(CLANG) {
        let found = version.lines().next().unwrap_or("none");
        return eprintln!("skipped: the objects are those of {CLANG}x, here is: {found}");
    }
    let fresh = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("kernel_programs");
    std::fs::create_dir_all(&fresh).expect("the directory is ours");
    let built = Command::new(sources().join("build")).arg(&fresh).output().expect("the script runs");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let kept = objects(&sources());
    let names =
        |paths: &[PathBuf]| paths.iter().map(|path| path.file_name().map(ToOwned::to_owned)).collect::<Vec<_>>();
    assert_eq!(names(&kept), names(&objects(&fresh)), "run crates/bpf/build and commit what it makes");
    for path in kept {
        let (kept, built) = (read(&path), read(&fresh.join(path.file_name().expect("it has one"))));
        let programs: Vec<&str> = kept.programs().collect();
        assert!(!programs.is_empty() && programs == built.programs().collect::<Vec<_>>(), "{}", path.display());
        for program in programs {
            let instructions = |object: &Object| object.instructions(program).expect("it has it");
            let same = instructions(&kept) == instructions(&built);
            assert!(same, "{}: {program}: run crates/bpf/build and commit what it makes", path.display());
        }
        assert_eq!(kept.shapes(), built.shapes(), "{}", path.display());
    }
}

#[test]
fn every_struct_that_a_map_holds_is_as_long_as_the_build_read_it() {
    let of = |bytes: &[u8], map: &str| Object::parse(map, bytes).expect("it can be loaded").shapes()[map].value_byte;
    for (bytes, map, byte) in [
        (vtare_bpf::AF_XDP, "setup_map", af_xdp::setup::BYTE),
        (vtare_bpf::CAPTURE, "wanted", capture::wanted::BYTE),
        (vtare_bpf::CAPTURE, "counts", capture::counts::BYTE),
        (vtare_bpf::LINK_COUNTER, "settings", link_counter::settings::BYTE),
        (vtare_bpf::PROBE, "setup_map", probe::setup::BYTE),
        (vtare_bpf::PROBE, "replies", probe::reply::BYTE),
        (vtare_bpf::REFLECT, "host_map", reflect::host::BYTE),
        (vtare_bpf::REFLECT, "sessions", reflect::session::BYTE),
        (vtare_bpf::REFLECT, "buckets", reflect::bucket::BYTE),
        (vtare_bpf::THROUGHPUT, "setup_map", throughput::setup::BYTE),
        (vtare_bpf::THROUGHPUT, "tallies", throughput::tally::BYTE),
        (vtare_bpf::THROUGHPUT, "flows", throughput::flow::BYTE),
    ] {
        assert_eq!(of(bytes, map) as usize, byte, "{map}");
    }
}
