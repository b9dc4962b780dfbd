//! Where the preload library is.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The library's file name.
pub(super) const NAME: &str = "libvtare_preload.so";
/// The environment variable that names the library's file.
pub(super) const VARIABLE: &str = "VTARE_PRELOAD";

/// Finds the library: at the variable's path, else beside the binary in `own` or where installations put it.
///
/// # Errors
/// What was looked for, and the way out.
pub(super) fn find(named: Option<&OsStr>, own: &Path) -> Result<PathBuf, String> {
    let named = named.filter(|named| !named.is_empty());
    let places = match named {
        Some(named) => vec![PathBuf::from(named)],
        None => places(own),
    };
    let found = places.iter().find(|place| place.is_file()).ok_or_else(|| {
        let looked: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
        let way_out = match named {
            Some(_) => format!("correct or unset {VARIABLE}"),
            None => format!("'make install' puts it there, or name it in {VARIABLE}"),
        };
        format!("the library {NAME} is missing; looked for {}: {way_out}", looked.join(", "))
    })?;
    let found = fs::canonicalize(found).map_err(|error| format!("cannot use {}: {error}", found.display()))?;
    // ld.so(8): a list separated by spaces or colons, without any quoting.
    if found.as_os_str().as_bytes().iter().any(|byte| matches!(byte, b' ' | b':')) {
        return Err(format!(
            "the library's path {} holds a space or a colon, which LD_PRELOAD cannot carry: copy the library \
             elsewhere and name it in {VARIABLE}",
            found.display()
        ));
    }
    Ok(found)
}

fn places(own: &Path) -> Vec<PathBuf> {
    let Some(beside) = own.parent() else { return Vec::new() };
    let mut places = vec![beside.join(NAME)];
    let Some(prefix) = beside.parent() else { return places };
    places.push(prefix.join("lib").join(NAME));
    let mut pythons: Vec<PathBuf> = fs::read_dir(prefix.join("lib"))
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().as_bytes().starts_with(b"python"))
        .flat_map(|entry| {
            ["site-packages", "dist-packages"].map(|packages| entry.path().join(packages).join("vtare/_lib").join(NAME))
        })
        .collect();
    pythons.sort();
    places.extend(pythons);
    places
}

/// The value of LD_PRELOAD with the library in it: behind what is there already, since some of these insist on being
/// first.
pub(super) fn preload_list(library: &Path, present: Option<&OsStr>) -> OsString {
    let mut list = present.unwrap_or_default().to_owned();
    if !list.is_empty() {
        list.push(":");
    }
    list.push(library);
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(name: &str) -> PathBuf {
        let root = std::env::temp_dir().join(format!("vtare-preload-{name}-{}", std::process::id()));
        fs::create_dir_all(root.join("bin")).expect("the temporary directory is writable");
        root
    }

    fn put(file: PathBuf) -> PathBuf {
        fs::create_dir_all(file.parent().expect("it has a parent")).expect("writable");
        fs::write(&file, "").expect("writable");
        fs::canonicalize(file).expect("it is there")
    }

    #[test]
    fn the_library_is_found_where_installations_put_it_nearest_first() {
        let root = root("places");
        let own = root.join("bin/vtare");
        let error = find(Some(OsStr::new("")), &own).expect_err("nothing is there, and an empty variable is none");
        assert!(error.contains("bin/libvtare_preload.so") && error.contains("lib/libvtare_preload.so"), "{error}");
        assert!(error.contains("VTARE_PRELOAD") && error.contains("make install"), "{error}");
        let wheel = put(root.join("lib/python3.11/site-packages/vtare/_lib").join(NAME));
        assert_eq!(find(None, &own), Ok(wheel));
        let installed = put(root.join("lib").join(NAME));
        assert_eq!(find(None, &own), Ok(installed));
        let beside = put(root.join("bin").join(NAME));
        assert_eq!(find(None, &own), Ok(beside));
        fs::remove_dir_all(root).expect("it is ours");
    }

    #[test]
    fn the_variable_decides_alone_and_a_path_that_the_linker_cannot_take_is_refused() {
        let root = root("named");
        put(root.join("bin").join(NAME));
        let own = root.join("bin/vtare");
        let error = find(Some(OsStr::new("/nonexistent/l.so")), &own).expect_err("it is not there");
        assert!(error.contains("/nonexistent/l.so") && error.contains("unset VTARE_PRELOAD"), "{error}");
        let spaced = put(root.join("a b").join(NAME));
        let error = find(Some(spaced.as_os_str()), &own).expect_err("a space");
        assert!(error.contains("space or a colon"), "{error}");
        fs::remove_dir_all(root).expect("it is ours");
    }

    #[test]
    fn what_is_preloaded_already_stays_first() {
        let library = Path::new("/usr/lib/l.so");
        assert_eq!(preload_list(library, None), "/usr/lib/l.so");
        assert_eq!(preload_list(library, Some(OsStr::new(""))), "/usr/lib/l.so");
        assert_eq!(preload_list(library, Some(OsStr::new("a.so b.so"))), "a.so b.so:/usr/lib/l.so");
    }
}
