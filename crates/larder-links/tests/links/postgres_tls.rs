//! TLS to a real PostgreSQL, with certificates of the test's own.

use larder_links::store::{DatabaseAddress, StoreConfig};
use larder_links::{Store, StoreError};
use larder_testkit::{POSTGRES_USER, PostgresServer, start_postgres_on_port};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

/// A server whose certificate is for `localhost`, with the certificate of the authority that signed it.
struct Secured {
    server: PostgresServer,
    port: u16,
    folder: TempDir,
}

impl Secured {
    fn start() -> Option<Secured> {
        let (issuer, root) = authority("ours");
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(["localhost".to_owned()]).unwrap();
        let certificate = certificate.signed_by(&key, &issuer).unwrap().pem();
        let (server, port) = start_postgres_on_port(Some((&certificate, &key.serialize_pem())))?;
        let folder = tempfile::tempdir().unwrap();
        for (name, pem) in [("root.pem", root), ("other.pem", authority("theirs").1)] {
            std::fs::write(folder.path().join(name), pem).unwrap();
        }
        Some(Secured { server, port, folder })
    }

    /// Opens it as a host, with parameters in which `ROOT` and `OTHER` are the files of its authority and of another one.
    fn open(&self, host: &str, parameters: &str) -> Result<Store, StoreError> {
        let file = |name| self.folder.path().join(name).display().to_string();
        let parameters = parameters.replace("ROOT", &file("root.pem")).replace("OTHER", &file("other.pem"));
        open(host, self.port, &parameters)
    }

    fn refusal(&self, host: &str, parameters: &str) -> String {
        self.open(host, parameters).map(drop).expect_err(parameters).to_string()
    }

    /// Whether each connection of the shortener is encrypted: `t`, `f`, or both.
    fn encrypted(&self) -> String {
        let sql =
            "SELECT string_agg(DISTINCT ssl::text, ' ') FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
                   WHERE application_name = 'larder links'";
        self.server.execute("postgres", sql).unwrap()
    }
}

fn authority(name: &str) -> (Issuer<'static, KeyPair>, String) {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let root = params.self_signed(&key).unwrap().pem();
    (Issuer::new(params, key), root)
}

fn open(host: &str, port: u16, parameters: &str) -> Result<Store, StoreError> {
    open_as(POSTGRES_USER, host, port, parameters)
}

fn open_as(user: &str, host: &str, port: u16, parameters: &str) -> Result<Store, StoreError> {
    let url = format!("postgres://{user}@{host}:{port}/postgres{parameters}");
    Store::open(&StoreConfig::of(DatabaseAddress::Postgres(url)))
}

#[tokio::test]
async fn connections_of_a_store_are_encrypted_unless_the_url_says_no() {
    let Some(server) = Secured::start() else { return };
    for (host, parameters, encrypted) in [
        ("localhost", "?sslmode=verify-full&sslrootcert=ROOT", "true"),
        ("localhost", "?sslmode=require&sslrootcert=ROOT", "true"),
        ("127.0.0.1", "?sslmode=verify-ca&sslrootcert=ROOT", "true"),
        ("127.0.0.1", "?sslmode=prefer", "true"),
        ("127.0.0.1", "", "true"),
        ("localhost", "?sslmode=disable", "false"),
    ] {
        let store = server.open(host, parameters).unwrap();
        // A connection of the pool.
        assert!(store.find("none").await.unwrap().is_none());
        assert_eq!(server.encrypted(), encrypted, "{host}{parameters}");
        store.close().await;
        drop(store);
        larder_testkit::eventually("its connections end", async || server.encrypted().is_empty()).await;
    }
}

#[test]
fn server_of_an_unknown_root_is_refused_with_the_setting() {
    let Some(server) = Secured::start() else { return };
    for parameters in [
        "?sslmode=require",
        "?sslmode=verify-full&sslrootcert=system",
        "?sslmode=verify-full&sslrootcert=OTHER",
        "?sslmode=verify-ca&sslrootcert=OTHER",
        "?sslmode=require&sslrootcert=OTHER",
    ] {
        let message = server.refusal("localhost", parameters);
        assert!(message.starts_with("cannot open the database postgres://…@localhost:"), "{message}");
        assert!(message.ends_with("name its root by sslrootcert=FILE in the URL"), "{parameters}: {message}");
    }
}

#[test]
fn server_of_another_name_is_refused_with_the_setting() {
    let Some(server) = Secured::start() else { return };
    for mode in ["require", "verify-full"] {
        let message = server.refusal("127.0.0.1", &format!("?sslmode={mode}&sslrootcert=ROOT"));
        assert!(message.contains("not valid for name \"127.0.0.1\""), "{message}");
        assert!(message.ends_with("or sslmode=verify-ca, which accepts any name"), "{message}");
    }
}

#[test]
fn server_without_tls_is_refused_unless_it_may_be() {
    let Some((_server, port)) = start_postgres_on_port(None) else { return };
    let message = open("localhost", port, "?sslmode=require").map(drop).unwrap_err().to_string();
    let end =
        "TLS failed: server does not support TLS: set ssl = on at the server, or sslmode=disable in the URL";
    assert!(message.ends_with(end), "{message}");
    open("localhost", port, "?sslmode=prefer").unwrap();
}

/// An attacker in between who has a certificate of his own cannot pass the proof of the password on.
#[test]
fn password_is_bound_to_the_encrypted_connection() {
    let Some(Secured { mut server, port, .. }) = Secured::start() else { return };
    let rules = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n";
    let rules = server.private_file("rules", rules).unwrap();
    server.execute("postgres", "CREATE ROLE ada SUPERUSER LOGIN PASSWORD 'secret'").unwrap();
    server.execute("postgres", &format!("ALTER SYSTEM SET hba_file = '{}'", rules.display())).unwrap();
    server.listen(port).unwrap();
    let open = |parameters| open_as("ada:secret", "localhost", port, parameters).map(drop);
    open("?channel_binding=require").unwrap();
    open("?sslmode=disable").unwrap();
    assert!(open("?sslmode=disable&channel_binding=require").is_err());
    assert!(open_as("ada:wrong", "localhost", port, "").is_err());
}

#[test]
fn file_without_roots_is_refused_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("roots.pem");
    let refusal = || {
        let parameters = format!("?sslmode=verify-full&sslrootcert={}", file.display());
        open("localhost", 1, &parameters).map(drop).unwrap_err().to_string()
    };
    let start = format!("sslrootcert: {}: ", file.display());
    assert!(refusal().contains(&start) && refusal().contains("No such file"), "{}", refusal());
    std::fs::write(&file, "not PEM").unwrap();
    assert!(refusal().ends_with(&format!("{start}no certificate in PEM")), "{}", refusal());
}
