//! How the library is linked.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // The emulator unloads a library whose module is purged, and threads of this one go on.
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}
