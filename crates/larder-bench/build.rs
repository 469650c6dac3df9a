//! Tells the program which compiler has built it: the results record that.

use std::process::Command;

fn main() {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output().ok();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let version = text.split_ascii_whitespace().nth(1).unwrap_or("unknown");
    println!("cargo::rustc-env=LARDER_RUSTC={version}");
    println!("cargo::rerun-if-changed=build.rs");
}
