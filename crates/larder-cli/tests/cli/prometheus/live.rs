//! A Prometheus that scrapes running parts: every expression of the dashboard and of the alerts has a value, and an alert fires.

use super::text;
use crate::admin_port::dashboard_of;
use crate::certificate::certificate_until;
use crate::http::{connect, get, request};
use crate::process::{FREE, Process, Up, larder, start_links_with};
use crate::proxy::{Origin, Proxy};
use crate::resp::command;
use crate::shortener::{create, follow};
use larder_testkit::{RedisServer, program, until};
use serde_json::Value;
use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

/// A running Prometheus.
struct Prometheus {
    address: SocketAddr,
    _process: Process,
}

impl Prometheus {
    /// Scrapes these admin ports, and evaluates the rules of the repository, whose alerts fire at once.
    fn start(program: &Path, folder: &Path, targets: &[SocketAddr]) -> Prometheus {
        let rules: String = text(super::RULES)
            .lines()
            .filter(|line| !line.trim_start().starts_with("for: "))
            .fold(String::new(), |rules, line| rules + line + "\n");
        std::fs::write(folder.join("alerts.yml"), rules).expect("the rules can be written");
        let targets: Vec<String> = targets.iter().map(|target| format!("'{target}'")).collect();
        let config = format!(
            "global: {{scrape_interval: 200ms, scrape_timeout: 200ms, evaluation_interval: 200ms}}\n\
             rule_files: [alerts.yml]\n\
             scrape_configs: [{{job_name: larder, static_configs: [{{targets: [{}]}}]}}]\n",
            targets.join(", ")
        );
        std::fs::write(folder.join("prometheus.yml"), config).expect("the configuration can be written");
        let mut command = Command::new(program);
        command.current_dir(folder).args(["--config.file=prometheus.yml", "--storage.tsdb.path=data"]);
        let process = Process::start(command.arg(format!("--web.listen-address={FREE}")));
        let address = until("Prometheus listens", || {
            let log = process.stderr();
            let address = log.lines().find_map(|line| line.split_once("msg=\"Listening on\" address="))?.1;
            Some(address.trim().parse().unwrap_or_else(|error| panic!("{address:?}: {error}")))
        });
        until("Prometheus is ready", || (get(address, "/-/ready").status == 200).then_some(()));
        Prometheus { address, _process: process }
    }

    /// The field `data` of an answer. HTTP/1.0 has no chunks.
    fn get(&self, path: &str) -> Value {
        let mut stream = connect(self.address).expect("a connection");
        let host = self.address;
        stream
            .write_all(format!("GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n").as_bytes())
            .expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let body = answer.split_once("\r\n\r\n").expect("a head").1;
        let mut answer: Value =
            serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"));
        assert_eq!(answer["status"], "success", "{path}: {answer}");
        answer["data"].take()
    }

    /// Whether an expression has a value now.
    fn has(&self, expression: &str) -> bool {
        let mut path = "/api/v1/query?query=".to_owned();
        expression.bytes().for_each(|byte| _ = write!(path, "%{byte:02x}"));
        self.get(&path)["result"].as_array().is_some_and(|result| !result.is_empty())
    }

    /// The expressions of the alerts, with the comparisons as values: they are there also while the alert does not fire.
    fn alert_expressions(&self) -> Vec<String> {
        let groups = self.get("/api/v1/rules")["groups"].take();
        let rules = groups.as_array().expect("groups").iter().flat_map(|group| group["rules"].as_array());
        let expressions = rules.flatten().map(|rule| rule["query"].as_str().expect("a query"));
        let with_values = |expression: &str| {
            let mut expression = expression.to_owned();
            for comparison in [" == ", " > ", " < ", " >= "] {
                expression = expression.replace(comparison, &format!("{comparison}bool "));
            }
            expression
        };
        expressions.map(with_values).collect()
    }

    /// The addresses of what an alert fires for.
    fn firing(&self, name: &str) -> Vec<String> {
        let alerts = self.get("/api/v1/alerts")["alerts"].take();
        let alerts = alerts.as_array().expect("a list").iter();
        let alerts =
            alerts.filter(|alert| alert["state"] == "firing" && alert["labels"]["alertname"] == name);
        alerts.map(|alert| alert["labels"]["instance"].as_str().expect("an address").to_owned()).collect()
    }
}

/// The expressions of the Grafana dashboard, for all instances and a minute.
fn drawn_expressions() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(&text("docs/grafana.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().expect("targets"));
    let expressions = targets.map(|target| target["expr"].as_str().expect("an expression"));
    let variables = [("$instance", ".*"), ("$__rate_interval", "1m"), ("$__range", "1m")];
    let replaced = |expression: &str| {
        variables.iter().fold(expression.to_owned(), |text, (name, value)| text.replace(name, value))
    };
    expressions.map(replaced).collect()
}

/// Everything that an expression needs is there from the start of a process, or comes with some load. A state that is not
/// `running` comes with the loss of Redis.
#[test]
fn every_expression_has_a_value_and_the_loss_of_redis_is_an_alert() {
    let Some(program) = program("prometheus") else { return };
    let Some(mut redis) = RedisServer::start() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = |name: &str| folder.path().join(name);
    let in_a_year = SystemTime::now() + Duration::from_secs(365 * 86_400);
    let [chain, key] = certificate_until(folder.path(), in_a_year);
    let tls = ["up", "--tls-port", "0", "--tls-cert", &chain, "--tls-key", &key];
    let up = Up::start_as(larder(tls), &data("up"));
    let flags = [format!("--redis={}", redis.url()), format!("--admin={FREE}")];
    let (mut links, http) = start_links_with(&data("links.db"), flags);
    let links_admin = dashboard_of(&mut links);
    let before_use = get(links_admin, "/metrics").body;
    assert!(before_use.contains("\nlarder_coherent{part=\"links\"} 1\n"), "{before_use}");
    let origin = Origin::start();
    let disk = data("disk").display().to_string();
    let proxy = Proxy::start(&origin, &data("proxy"), &["--disk", &disk]);

    let prometheus = Prometheus::start(&program, folder.path(), &[up.admin, links_admin, proxy.admin]);
    let slug = create(http, "https://example.com/");
    let put_to_use = || {
        follow(http, &slug);
        get(proxy.http, "/page");
        // A reason for which a response is not stored.
        request(proxy.http, "GET", "/cart", &[], "").expect("an answer");
        command(up.resp, "SET key value PX 1");
    };
    let drawn = drawn_expressions();
    assert!(drawn.len() >= 14, "{drawn:?}");
    let is_of_trouble = |expression: &String| expression.contains("state!=\"running\"");
    let (of_trouble, mut missing): (Vec<_>, Vec<_>) = drawn.into_iter().partition(is_of_trouble);
    let alerts = prometheus.alert_expressions();
    assert!(alerts.len() > 20, "{alerts:?}");
    missing.extend(alerts);
    until("every expression has a value", || {
        put_to_use();
        missing.retain(|expression| !prometheus.has(expression));
        eprintln!("without a value: {missing:#?}");
        missing.is_empty().then_some(())
    });
    assert_eq!(prometheus.firing("LarderNotCoherent"), [""; 0]);

    redis.kill();
    until("the alert fires", || {
        follow(http, &slug);
        (prometheus.firing("LarderNotCoherent") == [links_admin.to_string()]).then_some(())
    });
    until("the dashboard shows the state", || {
        of_trouble.iter().all(|expression| prometheus.has(expression)).then_some(())
    });
    assert_eq!(of_trouble.len(), 1);
    proxy.stop();
    up.stop();
}
