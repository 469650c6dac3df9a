//! A cluster whose servers are reached over TLS: which name its certificates must have.

use crate::mutation::Mutation;
use crate::tls::{Authority, node};
use crate::{cached, fetched};
use larder::{Cache, RedisTls, View};
use larder_testkit::{Cluster, eventually};

const PRIMARIES: usize = 3;
/// What a server needs to announce its name instead of its address.
const ANNOUNCED: [&str; 4] =
    ["--cluster-announce-hostname", "localhost", "--cluster-preferred-endpoint-type", "hostname"];

/// Servers with a certificate of this authority for this host, and further options.
fn start(authority: &Authority, host: &str, further: &[&str]) -> Option<Cluster> {
    authority.with_certificate(host, "no", |options| {
        Cluster::start_primaries_with_tls(PRIMARIES, &[options, further].concat())
    })
}

fn url(cluster: &Cluster, user: &str, host: &str) -> String {
    format!("rediss+cluster://{user}{host}:{}", cluster.port(0))
}

/// Two nodes at this address share values over all primaries, which were announced as this host.
async fn are_coherent(authority: &Authority, url: &str, announced: &str) {
    let (one, errors) = node(url.to_owned(), authority.roots());
    let (other, _) = node(url.to_owned(), authority.roots());
    let (a, b): (View<str, u32>, View<str, u32>) = (one.view("n"), other.view("n"));
    let are_trusted = |caches: [&Cache; 2]| caches.iter().all(|cache| cache.coherence().memory_trusted);
    assert_eq!(fetched(&a, "first", 1).await, 1);
    assert_eq!(fetched(&b, "first", 2).await, 1);
    eventually("memory is trusted", async || are_trusted([&one, &other])).await;
    for number in 0..20 {
        let key = &number.to_string()[..];
        a.write(key, 1).await.everywhere();
        assert_eq!(cached(&b, key).await, 1);
        b.write(key, 2).await.everywhere();
        eventually("the invalidation arrives", async || cached(&a, key).await == 2).await;
    }
    let primaries = one.coherence().primaries;
    let is_announced = |address: &str| address.starts_with(&format!("{announced}:"));
    assert!(primaries.iter().all(|primary| is_announced(&primary.address)), "{primaries:?}");
    assert_eq!(primaries.len(), PRIMARIES);
    assert_eq!(errors.lock().expect("no panic")[..], [""; 0]);
}

/// Why a node does not use the cluster.
async fn refusal(url: String, tls: RedisTls) -> String {
    let (cache, errors) = node(url, tls);
    let view: View<str, u32> = cache.view("n");
    assert_eq!(fetched(&view, "k", 1).await, 1, "the cache works without it");
    let refusal = || {
        let errors = errors.lock().expect("no panic");
        errors.iter().find(|error| error.starts_with("refused: ")).cloned()
    };
    eventually("the reason is reported", async || {
        view.delete("k").await.queued();
        refusal().is_some()
    })
    .await;
    refusal().expect("it is reported")
}

#[tokio::test]
async fn announced_names_are_those_of_the_certificates() {
    let authority = Authority::new("test");
    let Some(cluster) = start(&authority, "localhost", &ANNOUNCED) else { return };
    are_coherent(&authority, &url(&cluster, "", "localhost"), "localhost").await;
    // The first server is reached by its number, and all as they are announced.
    let message = refusal(url(&cluster, "", "127.0.0.1"), authority.roots()).await;
    assert!(message.contains("the server's certificate is not for 127.0.0.1"), "{message}");
}

#[tokio::test]
async fn announced_address_may_have_a_certificate_for_the_configured_name() {
    let authority = Authority::new("test");
    let Some(cluster) = start(&authority, "localhost", &[]) else { return };
    are_coherent(&authority, &url(&cluster, "", "localhost"), "127.0.0.1").await;
}

#[tokio::test]
async fn announced_address_may_have_a_certificate_of_its_own() {
    let authority = Authority::new("test");
    let Some(cluster) = start(&authority, "127.0.0.1", &[]) else { return };
    are_coherent(&authority, &url(&cluster, "", "127.0.0.1"), "127.0.0.1").await;
    let message = refusal(url(&cluster, "", "localhost"), authority.roots()).await;
    assert!(message.contains("the server's certificate is not for localhost"), "{message}");
}

#[tokio::test]
async fn announced_name_that_its_certificate_does_not_have_is_refused_with_advice() {
    let authority = Authority::new("test");
    let Some(cluster) = start(&authority, "127.0.0.1", &ANNOUNCED) else { return };
    let message = refusal(url(&cluster, "", "127.0.0.1"), authority.roots()).await;
    assert!(message.contains("announced as localhost has a certificate for another name"), "{message}");
    assert!(message.contains("cluster-announce-hostname"), "{message}");
}

#[tokio::test]
async fn certificate_of_another_name_or_root_is_refused_with_advice() {
    let authority = Authority::new("test");
    let Some(cluster) = start(&authority, "other.example", &[]) else { return };
    let message = refusal(url(&cluster, "", "localhost"), authority.roots()).await;
    assert!(message.contains("the server's certificate is not for localhost"), "{message}");
    let message = refusal(url(&cluster, "", "localhost"), Authority::new("test").roots()).await;
    assert!(message.contains("RedisTls::with_root_certificates"), "{message}");
}

#[tokio::test]
async fn user_and_password_are_sent_over_tls() {
    let authority = Authority::new("test");
    let Some(cluster) = start(&authority, "localhost", &ANNOUNCED) else { return };
    for server in cluster.servers() {
        let reply = cluster.command(server, "ACL SETUSER shop on >secret ~* &* +@all");
        assert_eq!(reply, "+OK\r\n");
    }
    are_coherent(&authority, &url(&cluster, "shop:secret@", "localhost"), "localhost").await;
    let message = refusal(url(&cluster, "shop:wrong@", "localhost"), authority.roots()).await;
    assert!(message.contains("WRONGPASS"), "{message}");
}
