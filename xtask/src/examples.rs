//! Runs the examples of every crate, which must be built already, and compares what the steps of the tutorial print. Runs the
//! scripts that make an incident happen and check what is seen of it.

use crate::workspace::{array, files_below, members, metadata, root, target, text};
use anyhow::{Context, Result, bail, ensure};
use larder_process::{RedisServer, Running, find_program};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Examples that serve until they are stopped. Here they are stopped once they have printed a line, which has their address.
const SERVICES: [&str; 9] = [
    "axum",
    "axum_service",
    "both_layers",
    "cache_server",
    "dashboard",
    "graphql",
    "shortener",
    "step_8",
    "with_dashboard",
];
/// The examples that need the URL of a Redis.
const NEED_REDIS: [&str; 2] = ["step_3", "two_nodes"];
/// Not an example, but the program that counts instructions for `cargo xtask guard`.
const GUARD: &str = "guard";
const DEADLINE: Duration = Duration::from_secs(30);

/// The sources of the steps of the tutorial, with what each prints in a text file beside it.
pub(crate) const STEPS: &str = "examples/tutorial/steps";

/// The scripts of incidents, each of which starts what it needs, and a file that they share.
const INCIDENTS: &str = "examples/incidents";
const SHARED_BY_INCIDENTS: &str = "lib.sh";
/// The page that tells of them.
const INCIDENTS_PAGE: &str = "docs/incidents.md";
/// The exit status of a script that lacks a program, which it names.
const LACKS_A_PROGRAM: i32 = 77;

/// Runs every example and every script of an incident to its end. Returns the number of those that ran, and those skipped because
/// of a missing program.
pub(crate) fn run() -> Result<(u64, Vec<String>)> {
    let (mut ran, mut skipped) = (0, Vec::new());
    for (name, source) in examples()? {
        let mut command = Command::new(target().join("debug/examples").join(&name));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let is_service = SERVICES.contains(&&*name);
        let _redis = match find_program("redis-server") {
            _ if !NEED_REDIS.contains(&&*name) => None,
            None => {
                skipped.push(format!("example {name}: redis-server is not installed"));
                continue;
            }
            Some(program) => {
                let redis = RedisServer::start(program)?;
                command.arg(redis.url());
                Some(redis)
            }
        };
        if is_service {
            command.arg("127.0.0.1:0");
        }
        let example = Running::start(&mut command).with_context(|| format!("cannot run example {name}"))?;
        let printed = finish(example, is_service).with_context(|| format!("example {name}"))?;
        let expected = root().join(source).with_extension("txt");
        if expected.is_file() && !is_service {
            let expected = std::fs::read_to_string(&expected)?;
            let same = without_seconds_left(&printed) == without_seconds_left(&expected);
            ensure!(same, "example {name} printed\n{printed}and not\n{expected}");
        }
        println!("example {name} ... ok");
        ran += 1;
    }
    for script in incidents() {
        let name = script.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        match run_incident(&script).with_context(|| format!("incident {name}"))? {
            Some(reason) => skipped.push(format!("incident {name}: {reason}")),
            None => {
                println!("incident {name} ... ok");
                ran += 1;
            }
        }
    }
    Ok((ran, skipped))
}

/// The scripts of incidents, sorted.
fn incidents() -> impl Iterator<Item = PathBuf> {
    let scripts = files_below(&root().join(INCIDENTS), ".sh").into_iter();
    scripts.filter(|script| !script.ends_with(SHARED_BY_INCIDENTS))
}

/// Runs a script of an incident to its end. Returns why it was skipped, if it was.
fn run_incident(script: &Path) -> Result<Option<String>> {
    let mut command = Command::new("bash");
    command.arg(script).env("LARDER", target().join("debug/larder"));
    let mut running = Running::start(command.stdin(Stdio::null()).stdout(Stdio::piped()))?;
    let output = BufReader::new(running.child().stdout.take().context("stdout is piped")?);
    let printed = std::thread::spawn(move || read_all(output));
    let status = running.wait_within(DEADLINE)?;
    if status.is_none() {
        // It ends what it has started.
        running.terminate();
        running.wait_within(DEADLINE)?;
        running.kill();
    }
    let printed = printed.join().expect("reading does not panic")?;
    match status.map(|status| (status.code(), status)) {
        Some((Some(0), _)) => Ok(None),
        Some((Some(LACKS_A_PROGRAM), _)) => Ok(Some(printed.trim().to_owned())),
        Some((_, status)) => bail!("failed: {status}\n{printed}"),
        None => bail!("did not end within {DEADLINE:?}\n{printed}"),
    }
}

/// The names and sources of the examples, sorted.
fn examples() -> Result<Vec<(String, String)>> {
    let metadata = metadata()?;
    let targets = members(&metadata).flat_map(|package| array(&package["targets"]));
    let mut examples: Vec<(String, String)> = targets
        .filter(|target| array(&target["kind"]).any(|kind| kind == "example"))
        .map(|target| (text(&target["name"]).to_owned(), text(&target["src_path"]).to_owned()))
        .filter(|(name, _)| name != GUARD)
        .collect();
    examples.sort();
    Ok(examples)
}

/// Waits until an example ends, or ends a service that has printed its address. Returns what it printed.
fn finish(mut example: Running, is_service: bool) -> Result<String> {
    let mut output = BufReader::new(example.child().stdout.take().context("stdout is piped")?);
    if is_service {
        let (send, first_line) = mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            _ = send.send(output.read_line(&mut line).map(|_| line));
        });
        let line = first_line.recv_timeout(DEADLINE).context("printed nothing")??;
        ensure!(line.contains("127.0.0.1:"), "printed {line:?}, expected an address");
        example.kill();
        return Ok(line);
    }
    let printed = std::thread::spawn(move || read_all(output));
    match example.wait_within(DEADLINE)? {
        Some(status) if status.success() => printed.join().expect("reading does not panic"),
        Some(status) => bail!("failed: {status}"),
        None => bail!("did not end within {DEADLINE:?}"),
    }
}

fn read_all(mut output: BufReader<ChildStdout>) -> Result<String> {
    let mut text = String::new();
    output.read_to_string(&mut text)?;
    Ok(text)
}

/// A text without the numbers of `ttl=…`: the seconds that are left depend on how fast the example runs.
fn without_seconds_left(text: &str) -> String {
    let mut parts = text.split("ttl=");
    let mut rest = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        rest.push_str("ttl=");
        rest.push_str(part.trim_start_matches(|digit: char| digit.is_ascii_digit()));
    }
    rest
}

/// The scripts of incidents that their page does not name.
pub(crate) fn check_incidents() -> Result<Vec<String>> {
    let page = std::fs::read_to_string(root().join(INCIDENTS_PAGE))
        .with_context(|| format!("cannot read {INCIDENTS_PAGE}"))?;
    let names =
        incidents().map(|script| script.strip_prefix(root()).unwrap_or(&script).display().to_string());
    let unnamed = names.filter(|name| !page.contains(name.as_str()));
    Ok(unnamed.map(|name| format!("{INCIDENTS_PAGE} does not name {name}")).collect())
}

/// What of the tutorial differs from its page: every step and its output stand in docs/tutorial.md.
pub(crate) fn check_tutorial() -> Result<Vec<String>> {
    const PAGE: &str = "docs/tutorial.md";
    let page = std::fs::read_to_string(root().join(PAGE)).with_context(|| format!("cannot read {PAGE}"))?;
    let mut files = files_below(&root().join(STEPS), "");
    files.push(root().join(STEPS).join("../src/lib.rs"));
    let mut faults = Vec::new();
    for file in files {
        let content =
            std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        if !page.contains(&format!("```{}\n{content}```", language(&file))) {
            faults.push(format!("{PAGE} does not have the content of {}", file.display()));
        }
    }
    Ok(faults)
}

fn language(file: &Path) -> &'static str {
    if file.extension().is_some_and(|ending| ending == "rs") { "rust,ignore" } else { "text" }
}
