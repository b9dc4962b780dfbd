//! Link flags of the shared library.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Hooks stay reachable from threads and exit handlers until the process ends, so the library must never be
    // unmapped.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // Every symbol is bound when the library is loaded: binding at first use would take the linker's lock within a
    // hook.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,now");
}
