//! The pages in a real browser, controlled by the scripts in `tests/browser`.

use crate::process::{Up, larder, run};
use crate::tokens::start_beyond_loopback;
use larder_testkit::{needs, program};
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn link_can_be_created_followed_and_counted_in_a_browser() {
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

/// Also takes the picture of the README, which `cargo xtask docs --pictures` copies to `docs/pictures`.
#[test]
fn dashboard_shows_the_load_in_a_browser() {
    let (Some(node), Some(chromium)) = (program("node"), program("chromium")) else { return };
    let Some(folder) = browser_folder() else { return };
    let data = tempfile::tempdir().expect("a temporary folder");
    let up = Up::start(&data.path().join("data"));
    let url = |address| format!("http://{address}/");
    let mut command = Command::new(node);
    command
        .arg("dashboard.mjs")
        .args([url(up.http), url(up.admin), up.resp.to_string()])
        .current_dir(&folder);
    let ended = run(command.env("CHROMIUM", chromium).env("SCREENSHOTS", folder.join("screenshots")));
    assert_eq!(ended.code, Some(0), "\n{}{}", ended.stdout, ended.stderr);
    up.stop();
}

#[test]
fn user_can_sign_in_with_a_token_and_sign_out() {
    let (Some(node), Some(chromium)) = (program("node"), program("chromium")) else { return };
    let Some(folder) = browser_folder() else { return };
    let data = tempfile::tempdir().expect("a temporary folder");
    let database = data.path().join("links.db");
    let rows = data.path().join("links.csv");
    std::fs::write(&rows, "name,url\nA page,https://example.com/a\n").expect("the file can be written");
    let address = format!("sqlite:{}", database.display());
    assert_eq!(run(larder(["links", "import", "--database", &address]).arg(&rows)).code, Some(0));
    let token = |scope: &str| {
        let added = run(&mut larder(["links", "token", "add", "--scope", scope, "--database", &address]));
        added.stdout.trim_end().to_owned()
    };
    let (write, read) = (token("write"), token("read"));
    let (_process, http) = start_beyond_loopback(&database);
    let mut command = Command::new(node);
    command.arg("sign-in.mjs").arg(format!("http://{http}/")).current_dir(&folder);
    command.env("CHROMIUM", chromium).env("SCREENSHOTS", folder.join("screenshots"));
    let ended = run(command.env("TOKEN", write).env("READ_TOKEN", read));
    assert_eq!(ended.code, Some(0), "\n{}{}", ended.stdout, ended.stderr);
}

/// The folder of npm packages below the target folder. The scripts are copied there, because Node.js searches packages
/// in the folder of the script and its parents.
fn browser_folder() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it is in the target folder");
    let folder = target.join("browser");
    needs("the npm package playwright-core", folder.join("node_modules/playwright-core").is_dir())?;
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser");
    for script in ["smoke.mjs", "dashboard.mjs", "sign-in.mjs"] {
        std::fs::copy(scripts.join(script), folder.join(script)).expect("the script can be copied");
    }
    Some(folder)
}
