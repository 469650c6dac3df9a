//! The container image: buildah builds it from its context, and the server in it is healthy, without root and without a shell.

use super::server::{DEADLINE, first_line};
use crate::dist::{Dist, output, run};
use crate::workspace::array;
use anyhow::{Context, Result, ensure};
use larder_process::Running;
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const IMAGE: &str = "larder-test";

pub(super) fn check(dist: &Dist) -> Result<()> {
    let builder = Builder(dist.work("image")?);
    run(Command::new("tar")
        .arg("--extract")
        .arg("--file")
        .arg(dist.container_archive())
        .current_dir(&builder.0))?;
    // The other format has no health checks.
    let build =
        ["build-using-dockerfile", "--quiet", "--format", "docker", "--isolation", "chroot", "--tag", IMAGE];
    run(builder.buildah(&build).arg(builder.0.join(dist.container_name())))?;
    let described: Value =
        serde_json::from_str(&output(&mut builder.buildah(&["inspect", "--type=image", IMAGE]))?)?;
    let config = &described["Docker"]["config"];
    ensure!(config["User"] == "65534:65534", "the image runs as {}", config["User"]);
    let health: Vec<&str> = array(&config["Healthcheck"]["Test"]).filter_map(Value::as_str).skip(1).collect();
    ensure!(health == ["/usr/bin/larder", "stats"], "its health check is {health:?}");

    let container = output(&mut builder.buildah(&["from", IMAGE]))?.trim().to_owned();
    let result = serve(&builder, &container, &health);
    run(&mut builder.buildah(&["rm", &container]))?;
    result
}

/// Starts the server of the image on free ports, and asks for its health as the image says.
fn serve(builder: &Builder, container: &str, health: &[&str]) -> Result<()> {
    let command = |environment: &[&str], words: &[&str]| {
        let mut command = builder.buildah(&["run", "--isolation", "chroot"]);
        for variable in environment {
            command.args(["--env", variable]);
        }
        command.args([container, "--"]).args(words).stdin(Stdio::null());
        command
    };
    let ports = ["LARDER_SERVER_LISTEN=0.0.0.0:0", "LARDER_SERVER_ADMIN=127.0.0.1:0"];
    let server = ["/usr/bin/larder", "server"];
    let refused = command(&ports, &server).output()?;
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    ensure!(!refused.status.success() && error.contains("without a password"), "{error}");

    let environment = [&ports[..], &["LARDER_SERVER_REQUIREPASS=secret"]].concat();
    let mut running =
        Running::start(command(&environment, &server).stdout(Stdio::piped()).stderr(Stdio::null()))?;
    let lines = running.child().stdout.take().context("stdout is piped")?;
    let dashboard = first_line(lines, "the dashboard is on ")?;
    let admin = format!("LARDER_ADMIN={}", dashboard.trim_end_matches('/'));
    let healthy = command(&[&admin], health).output()?;
    running.terminate();
    running.wait_within(DEADLINE)?.context("the server does not stop")?;
    ensure!(healthy.status.success(), "{healthy:?}");
    ensure!(!command(&[&admin], health).output()?.status.success(), "a server that has ended is healthy");
    Ok(())
}

/// buildah with a store of its own in this folder, which nothing else on the machine uses.
struct Builder(PathBuf);

impl Builder {
    fn buildah(&self, words: &[&str]) -> Command {
        let mut command = Command::new("buildah");
        command.arg("--storage-driver=vfs").arg("--root").arg(self.0.join("store"));
        command.arg("--runroot").arg(self.0.join("run")).args(words);
        command
    }
}
