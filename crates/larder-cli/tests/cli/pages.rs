//! The pages in a real browser, controlled by the scripts in `tests/browser`.

use crate::process::{Process, Up, larder, run, start_links_with};
use crate::tokens::start_beyond_loopback;
use larder_testkit::{needs, program};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

#[test]
fn link_can_be_created_followed_and_counted_in_a_browser() {
    let Some(browser) = Browser::find() else { return };
    let data = tempfile::tempdir().expect("a temporary folder");
    let up = Up::start(&data.path().join("data"));
    let mut smoke = browser.script("smoke.mjs");
    assert_succeeds(smoke.args([page(up.http), page(up.admin)]));
    up.stop();
}

#[test]
fn every_feature_of_a_link_works_by_keyboard_in_a_browser() {
    let Some(browser) = Browser::find() else { return };
    for part in ["options", "deletion", "editing", "list"] {
        let data = tempfile::tempdir().expect("a temporary folder");
        // The browser need not wait ten seconds for the counts of where visits come from.
        let config = data.path().join("larder.toml");
        std::fs::write(&config, "[links]\nvisit_flush_ms = 50\n").expect("the file can be written");
        let flags = [format!("--config={}", config.display())];
        let (_process, http) = start_links_with(&data.path().join("links.db"), flags);
        assert_succeeds(browser.script("links.mjs").args([&page(http), part]));
    }
}

/// Also takes the pictures of the documentation, for which `cargo xtask docs --pictures` runs it under a longer load.
#[test]
fn dashboard_shows_the_load_in_a_browser() {
    let Some(browser) = Browser::find() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    // Little memory, so that there are evictions.
    let up = Up::start_with(&data, "[links]\nvisit_flush_ms = 100\n[server]\nmax_memory = \"2mb\"\n");
    let token = std::fs::read_to_string(data.join("admin-token")).expect("a token");
    let mut dashboard = browser.script("dashboard.mjs");
    dashboard.args([page(up.http), page(up.admin), up.resp.to_string()]);
    assert_succeeds(dashboard.env("TOKEN", token.trim_end()));
    up.stop();
}

#[test]
fn user_can_sign_in_with_a_token_and_sign_out() {
    let Some(browser) = Browser::find() else { return };
    let data = tempfile::tempdir().expect("a temporary folder");
    let database = data.path().join("links.db");
    let rows = data.path().join("links.csv");
    std::fs::write(&rows, "name,url\nA page,https://example.com/a\n").expect("the file can be written");
    let address = format!("sqlite:{}", database.display());
    assert_succeeds(larder(["links", "import", "--database", &address]).arg(&rows));
    let token = |scope: &str| {
        let added = run(&mut larder(["links", "token", "add", "--scope", scope, "--database", &address]));
        added.stdout.trim_end().to_owned()
    };
    let (write, read) = (token("write"), token("read"));
    let (_process, http) = start_beyond_loopback(&database);
    let mut sign_in = browser.script("sign-in.mjs");
    assert_succeeds(sign_in.arg(page(http)).env("TOKEN", write).env("READ_TOKEN", read));
}

/// A script has some dozen steps, each of which has a limit of its own, and may wait for three minutes of load.
const BROWSER_PATIENCE: Duration = Duration::from_secs(400);

/// Node.js, Chromium, and the folder of npm packages below the target folder.
struct Browser {
    node: PathBuf,
    chromium: PathBuf,
    folder: PathBuf,
}

impl Browser {
    fn find() -> Option<Self> {
        let (node, chromium) = (program("node")?, program("chromium")?);
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it is in the target folder");
        let folder = target.join("browser");
        for package in ["playwright-core", "axe-core"] {
            needs(&format!("the npm package {package}"), folder.join("node_modules").join(package).is_dir())?;
        }
        Some(Self { node, chromium, folder })
    }

    /// Runs the script, which is copied to the folder first, with what it imports: Node.js searches packages in the folder
    /// of the script and its parents.
    fn script(&self, name: &str) -> Command {
        for name in [name, "page.mjs"] {
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser").join(name);
            let copy = tempfile::NamedTempFile::new_in(&self.folder).expect("a file in the target folder");
            std::fs::copy(source, copy.path()).expect("the script can be copied");
            // At once: another test may run it.
            copy.persist(self.folder.join(name)).expect("the script can be renamed");
        }
        let mut command = Command::new(&self.node);
        command.arg(name).current_dir(&self.folder);
        command.env("CHROMIUM", &self.chromium).env("SCREENSHOTS", self.folder.join("screenshots"));
        command
    }
}

fn page(address: impl std::fmt::Display) -> String {
    format!("http://{address}/")
}

fn assert_succeeds(command: &mut Command) {
    let ended = Process::start(command).end_within(BROWSER_PATIENCE);
    assert_eq!(ended.code, Some(0), "\n{}{}", ended.stdout, ended.stderr);
}
