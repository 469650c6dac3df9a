//! `cargo xtask shops`: the shop in five languages, with one Redis and one database. `examples/languages` is the service in Rust,
//! whose page shows all of them.

use super::{elixir, node, python, ruby};
use crate::workspace::{root, target};
use anyhow::{Context, Result, ensure};
use larder_process::{RedisServer, Running, find_program};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Longer than any service needs to start.
const DEADLINE: Duration = Duration::from_secs(60);
/// The libraries of the languages, and the service in Rust.
const PACKAGES: [&str; 5] = ["languages", "larder-python", "larder-node", "larder-ruby", "larder-elixir"];

/// Builds what the services need.
pub(crate) fn build() -> Result<()> {
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--locked"]).args(PACKAGES.iter().flat_map(|name| ["--package", name]));
    ensure!(build.current_dir(root()).status().context("cannot run cargo")?.success(), "cargo build failed");
    Ok(())
}

/// Starts all services of the last build, and prints the address of the page. Enter ends them.
pub(crate) fn serve() -> Result<()> {
    let shops = Shops::start()?;
    println!("{}\nEnter ends all services.", shops.page);
    if std::io::stdin().read_line(&mut String::new())? == 0 {
        // Nobody can press it: a signal ends the process.
        loop {
            std::thread::park();
        }
    }
    Ok(())
}

/// Starts all services, and changes the price in each by turns.
pub(crate) fn check() -> Result<()> {
    let shops = Shops::start()?;
    let mut check = Command::new("node");
    check.arg(root().join("examples/languages/check.mjs")).arg(&shops.page);
    ensure!(check.status().context("cannot run node")?.success(), "a shop shows an old price");
    Ok(())
}

/// The services. Dropping them ends them.
pub(crate) struct Shops {
    /// The address of the page.
    pub(crate) page: String,
    _services: Vec<Running>,
    _redis: RedisServer,
}

impl Shops {
    /// Starts the services of this build.
    pub(crate) fn start() -> Result<Self> {
        let redis = find_program("redis-server").context("redis-server is not installed")?;
        let redis = RedisServer::start(redis).context("redis-server does not start")?;
        let origin = redis.folder().join("shop.json");
        let (mut services, mut addresses) = (Vec::new(), String::new());
        for (name, mut command) in commands()? {
            command.env("REDIS_URL", redis.url()).env("ORIGIN_FILE", &origin).env("PORT", "0");
            let (service, address) = start(command).with_context(|| format!("the shop in {name}"))?;
            services.push(service);
            addresses += &format!("{name}={address} ");
        }
        let mut rust = Command::new(target().join("debug/languages"));
        rust.env("REDIS_URL", redis.url())
            .env("ORIGIN_FILE", origin)
            .env("PORT", "0")
            .env("SHOPS", addresses);
        let (service, page) = start(rust).context("the shop in Rust")?;
        services.push(service);
        Ok(Shops { page, _services: services, _redis: redis })
    }
}

/// The services in other languages than Rust.
fn commands() -> Result<[(&'static str, Command); 4]> {
    let examples = |language: &str| root().join("bindings").join(language).join("examples");
    let mut django = Command::new("python3");
    let path = [python::stage()?, target().join(python::LIBRARIES).join("packages")];
    django.arg(examples("python").join("django_shop/app.py")).env("PYTHONPATH", std::env::join_paths(path)?);
    django.env("PYTHONUNBUFFERED", "1").env("PYTHONDONTWRITEBYTECODE", "1");

    // It finds packages beside its modules alone.
    let tests = node::stage()?;
    super::replace_folder(&examples("node").join("express"), &tests.join("express"))?;
    let mut express = Command::new("node");
    express.arg(tests.join("express/server.js"));

    let mut rails = Command::new("puma");
    rails.args(["--bind", "tcp://localhost:0", "config.ru"]).current_dir(examples("ruby").join("rails_shop"));
    rails.env("RUBYLIB", ruby::stage()?);

    let project = elixir::stage()?;
    let mut erlang = Command::new("elixir");
    erlang.arg("-pa").arg(elixir::modules(&project)).arg(project.join("examples/shop/shop.exs"));
    Ok([("Django", django), ("Express", express), ("Rails", rails), ("Elixir", erlang)])
}

/// Starts a service, and waits for the line with its address.
fn start(mut command: Command) -> Result<(Running, String)> {
    let mut service = Running::start(command.stdin(Stdio::null()).stdout(Stdio::piped()))?;
    let output = BufReader::new(service.child().stdout.take().context("stdout is piped")?);
    let (sender, receiver) = mpsc::channel();
    // Reads on, so that the service can write.
    std::thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            _ = address_in(&line).map(|address| sender.send(address));
        }
    });
    let address = receiver.recv_timeout(DEADLINE).context("it prints no address")?;
    Ok((service, address))
}

/// The address in a line.
fn address_in(line: &str) -> Option<String> {
    let rest = &line[line.find("http://")?..];
    Some(rest.split_whitespace().next()?.replace("[::1]", "localhost").replace("127.0.0.1", "localhost"))
}
