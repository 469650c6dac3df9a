//! `larder warm`: requests the URLs of a file through a running proxy, so that their responses are stored before anybody asks.

use crate::flags::WarmFlags;
use crate::options::settings::File;
use crate::output::print;
use crate::parts::runtime;
use anyhow::{Context, Result, bail};
use axum::body::{Bytes, HttpBody};
use axum::http::header::{CACHE_CONTROL, HOST, HeaderName, HeaderValue};
use axum::http::{Method, Request, Response, Uri};
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::BTreeMap;
use std::error::Error;
use std::pin::pin;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Requests at a time. An origin that is slow must still have room for its visitors.
const CONCURRENT: usize = 16;
/// For a whole response.
const TIMEOUT: Duration = Duration::from_secs(60);
/// What takes longer shows its progress.
const SHOW_PROGRESS_AFTER: Duration = Duration::from_secs(2);
/// The maximum number of lines and failures that are listed; all are counted.
const SHOWN: usize = 20;
/// How often it is looked whether a streamed response was stored, and the pause before each further look.
const LOOKS: (usize, Duration) = (5, Duration::from_millis(100));
const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

pub(crate) fn run(flags: WarmFlags, file: File) -> Result<()> {
    let name = flags.file.display();
    let text = std::fs::read_to_string(&flags.file).with_context(|| format!("cannot read {name}"))?;
    let (pages, wrong) = parse(&text);
    if pages.is_empty() {
        let first = wrong.first().map(|line| format!(": {line}"));
        bail!("{name} has no URL{}", first.unwrap_or_default());
    }
    let warmer = Warmer::new(file.proxy_authority(flags.proxy));
    let start = Instant::now();
    let report = runtime()?.block_on(warmer.warm(pages));
    print(&report.text(&wrong, start.elapsed().as_secs_f64()))?;
    if report.failed == report.total() {
        bail!("no URL was answered");
    }
    Ok(())
}

/// The path of a URL, and the host, unless that is the proxy's.
type Page = (Option<String>, String);

/// The URLs of a file, and what is wrong with its other lines. Empty lines and those with a `#` in front are none.
fn parse(text: &str) -> (Vec<Page>, Vec<String>) {
    let (mut pages, mut wrong) = (Vec::new(), Vec::new());
    for (number, line) in (1..).zip(text.lines().map(str::trim)) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match page(line) {
            Ok(page) => pages.push(page),
            Err(reason) => wrong.push(format!("line {number}: {reason}")),
        }
    }
    (pages, wrong)
}

fn page(line: &str) -> Result<Page, &'static str> {
    const EXPECTED: &str = "expected http://HOST/PATH, or a path such as /products";
    let uri: Uri = line.split('#').next().unwrap_or_default().parse().map_err(|_| EXPECTED)?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    match (uri.scheme_str(), uri.authority()) {
        (Some("http"), Some(authority)) if !authority.as_str().contains('@') => {
            Ok((Some(authority.as_str().to_owned()), path.to_owned()))
        }
        (Some("https"), _) => Err("responses over https are stored apart, and requests are sent over http"),
        (None, None) if path.starts_with('/') => Ok((None, path.to_owned())),
        _ => Err(EXPECTED),
    }
}

/// What became of one URL.
#[derive(Debug, PartialEq, Eq)]
enum Warmed {
    Stored,
    /// It was stored before.
    Hit,
    /// With the reason of the cache.
    Unstored(String),
    Failed(String),
}

#[derive(Debug, Default)]
struct Report {
    stored: usize,
    hits: usize,
    failed: usize,
    /// How many responses were not stored, by the reason.
    unstored: BTreeMap<String, usize>,
    failures: Vec<String>,
}

impl Report {
    fn add(&mut self, url: &str, warmed: Warmed) {
        match warmed {
            Warmed::Stored => self.stored += 1,
            Warmed::Hit => self.hits += 1,
            Warmed::Unstored(reason) => *self.unstored.entry(reason).or_default() += 1,
            Warmed::Failed(reason) => {
                self.failed += 1;
                if self.failures.len() < SHOWN {
                    self.failures.push(format!("{url}: {reason}"));
                }
            }
        }
    }

    fn unstored(&self) -> usize {
        self.unstored.values().sum()
    }

    fn total(&self) -> usize {
        self.stored + self.hits + self.unstored() + self.failed
    }

    /// For people.
    fn text(&self, wrong: &[String], seconds: f64) -> String {
        let mut text = format!(
            "{} URLs in {seconds:.1} s: {} stored, {} were stored already, {} not stored, {} failed\n",
            self.total(),
            self.stored,
            self.hits,
            self.unstored(),
            self.failed
        );
        for (reason, count) in &self.unstored {
            text += &format!("  not stored: {count} × {reason}\n");
        }
        for (lines, count) in [(&self.failures[..], self.failed), (wrong, wrong.len())] {
            let shown = lines.len().min(SHOWN);
            lines[..shown].iter().for_each(|line| text += &format!("  {line}\n"));
            if count > shown {
                text += &format!("  and {} more\n", count - shown);
            }
        }
        text
    }
}

/// A client of a proxy. Cheap to clone.
#[derive(Clone)]
struct Warmer {
    /// `HOST:PORT` of the proxy.
    proxy: String,
    client: Client<HttpConnector, Empty<Bytes>>,
}

impl Warmer {
    fn new(proxy: String) -> Warmer {
        Warmer { proxy, client: Client::builder(TokioExecutor::new()).build_http() }
    }

    /// Requests all pages, some at a time.
    async fn warm(&self, pages: Vec<Page>) -> Report {
        let style = ProgressStyle::with_template("{bar:40} {pos}/{len} URLs  {msg}  {elapsed}");
        let bar = ProgressBar::with_draw_target(Some(pages.len() as u64), ProgressDrawTarget::hidden())
            .with_style(style.expect("the template is valid"));
        let (start, mut is_shown) = (Instant::now(), false);
        let (mut report, mut running, mut pages) = (Report::default(), JoinSet::new(), pages.into_iter());
        loop {
            while running.len() < CONCURRENT
                && let Some(page) = pages.next()
            {
                let warmer = self.clone();
                running.spawn(async move {
                    let warmed = warmer.warm_page(&page).await;
                    (page, warmed)
                });
            }
            let Some(ended) = running.join_next().await else { break };
            if let Ok(((host, path), warmed)) = ended {
                let host = host.as_deref().unwrap_or(&self.proxy);
                report.add(&format!("http://{host}{path}"), warmed);
            }
            if !is_shown && start.elapsed() >= SHOW_PROGRESS_AFTER {
                bar.set_draw_target(ProgressDrawTarget::stderr());
                is_shown = true;
            }
            bar.set_message(format!("{} stored", report.stored));
            bar.inc(1);
        }
        bar.finish_and_clear();
        report
    }

    async fn warm_page(&self, page: &Page) -> Warmed {
        match timeout(TIMEOUT, self.fetch(page)).await {
            Ok(Ok(warmed)) => warmed,
            Ok(Err(error)) => Warmed::Failed(error.root_cause().to_string()),
            Err(_) => Warmed::Failed(format!("no complete response within {} s", TIMEOUT.as_secs())),
        }
    }

    async fn fetch(&self, page: &Page) -> Result<Warmed> {
        let response = self.send(Method::GET, page, None).await?;
        let warmed = verdict(&response);
        let mut body = pin!(response.into_body());
        while let Some(frame) = body.frame().await {
            frame?;
        }
        match warmed {
            Warmed::Unstored(reason) if reason == "streaming" => self.look(page).await,
            warmed => Ok(warmed),
        }
    }

    /// Whether a response is stored whose head was sent before the end of its body; it need not be fresh.
    async fn look(&self, page: &Page) -> Result<Warmed> {
        let only_stored = HeaderValue::from_static("only-if-cached, max-stale");
        for _ in 0..LOOKS.0 {
            let response = self.send(Method::HEAD, page, Some(only_stored.clone())).await?;
            if verdict(&response) == Warmed::Hit {
                return Ok(Warmed::Stored);
            }
            sleep(LOOKS.1).await;
        }
        Ok(Warmed::Unstored(
            "its body was streamed: it is too long to be stored, or must be validated at once".to_owned(),
        ))
    }

    async fn send(
        &self,
        method: Method,
        (host, path): &Page,
        cache_control: Option<HeaderValue>,
    ) -> Result<Response<impl HttpBody<Data = Bytes, Error: Error + Send + Sync + 'static> + use<>>> {
        let uri = format!("http://{}{path}", self.proxy);
        let mut request = Request::builder().method(method).uri(uri);
        if let Some(host) = host {
            request = request.header(HOST, host);
        }
        if let Some(value) = cache_control {
            request = request.header(CACHE_CONTROL, value);
        }
        Ok(self.client.request(request.body(Empty::new())?).await?)
    }
}

/// What the cache says of a response.
fn verdict<B>(response: &Response<B>) -> Warmed {
    let line =
        response.headers().get_all(CACHE_STATUS).iter().filter_map(|line| line.to_str().ok()).next_back();
    let Some(line) = line.filter(|line| line.starts_with("larder;")) else {
        let status = response.status();
        return Warmed::Failed(format!("{status} without a Cache-Status of larder; is it a proxy?"));
    };
    let mut parts = line.split(';').map(str::trim).skip(1);
    let detail = || line.split(';').find_map(|part| part.trim().strip_prefix("detail="));
    match parts.next() {
        Some("hit") => Warmed::Hit,
        _ if line.split(';').any(|part| matches!(part.trim(), "stored" | "collapsed")) => Warmed::Stored,
        first => Warmed::Unstored(detail().or(first).unwrap_or("no reason").to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_urls_paths_comments_or_wrong() {
        let text =
            "# a list\n\nhttp://shop.example/a?b=c#d\n /products \nhttps://shop.example/\nftp://x/\nshop\n";
        let (pages, wrong) = parse(text);
        let host = Some("shop.example".to_owned());
        assert_eq!(pages, [(host, "/a?b=c".to_owned()), (None, "/products".to_owned())]);
        let starts = ["line 5: responses over https", "line 6: expected http://", "line 7: expected http://"];
        assert_eq!(wrong.len(), starts.len());
        for (line, start) in wrong.iter().zip(starts) {
            assert!(line.starts_with(start), "{line}");
        }
    }

    #[test]
    fn verdict_is_that_of_the_cache() {
        let of = |status: &str| verdict(&Response::builder().header(CACHE_STATUS, status).body(()).unwrap());
        assert_eq!(of("larder; fwd=uri-miss; stored"), Warmed::Stored);
        assert_eq!(of("larder; fwd=stale; fwd-status=304; stored"), Warmed::Stored);
        assert_eq!(of("larder; hit; ttl=5"), Warmed::Hit);
        assert_eq!(of("larder; fwd=uri-miss; detail=set-cookie"), Warmed::Unstored("set-cookie".to_owned()));
        assert!(matches!(of("other; hit"), Warmed::Failed(_)));
    }

    #[test]
    fn report_counts_all_and_lists_some() {
        let mut report = Report::default();
        report.add("http://a/", Warmed::Stored);
        report.add("http://a/", Warmed::Hit);
        (0..2).for_each(|_| report.add("http://a/", Warmed::Unstored("no-store".to_owned())));
        (0..21).for_each(|n| report.add(&format!("http://a/{n}"), Warmed::Failed("refused".to_owned())));
        let text = report.text(&["line 9: wrong".to_owned()], 1.0);
        let start = "25 URLs in 1.0 s: 1 stored, 1 were stored already, 2 not stored, 21 failed\n  \
                     not stored: 2 × no-store\n  http://a/0: refused\n";
        assert!(text.starts_with(start) && text.ends_with("  and 1 more\n  line 9: wrong\n"), "{text}");
    }
}
