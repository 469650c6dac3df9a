//! The pages in a real browser, driven by `tests/browser/smoke.mjs`.

use crate::process::{Up, run};
use larder_testkit::{needs, program};
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn a_person_makes_a_link_follows_it_and_sees_it_counted() {
    let (Some(node), Some(chromium)) = (program("node"), program("chromium")) else { return };
    let Some(folder) = browser_folder() else { return };
    let data = tempfile::tempdir().expect("a temporary folder");
    let up = Up::start(&data.path().join("data"));
    let url = |address| format!("http://{address}/");
    let mut command = Command::new(node);
    command.arg("smoke.mjs").args([url(up.http), url(up.admin)]).current_dir(&folder);
    let ended = run(command.env("CHROMIUM", chromium).env("SCREENSHOTS", folder.join("screenshots")));
    assert_eq!(ended.code, Some(0), "\n{}{}", ended.stdout, ended.stderr);
    up.stop();
}

/// The folder of npm packages below the target folder, with the present script in it: a script looks for its packages
/// beside and above itself.
fn browser_folder() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it lies in the target folder");
    let folder = target.join("browser");
    needs("the npm package playwright-core", folder.join("node_modules/playwright-core").is_dir())?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser/smoke.mjs");
    std::fs::copy(script, folder.join("smoke.mjs")).expect("the script can be copied");
    Some(folder)
}
