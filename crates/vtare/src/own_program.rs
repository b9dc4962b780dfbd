//! Where this program is, which `/proc` alone knows, and what is missing without `/proc`.

use std::path::PathBuf;

use vtare_sys::kernel_file::has_proc;

use crate::failure::Failure;
use crate::note::Note;

/// How to get it.
const MOUNT: &str = "run 'mount -t proc proc /proc' first";

/// The file of this program.
///
/// # Errors
/// [`Failure::Machine`] where it cannot be found, with the reason.
pub(crate) fn path() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|error| {
        Failure::Machine(if has_proc() {
            format!("cannot find this program's own file: {error}")
        } else {
            format!("/proc is not mounted, and this command must find its own program in /proc/self/exe: {MOUNT}")
        })
    })
}

/// The remark on a result that had to do without `/proc`.
pub(crate) fn proc_note() -> Option<Note> {
    (!has_proc()).then(|| Note::new("proc_missing", crate::sentences::run::no_proc(MOUNT)))
}
