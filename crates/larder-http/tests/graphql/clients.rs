//! Apollo Client and urql work unchanged: their npm packages, in Node.js, over HTTP.

use std::path::Path;
use std::process::Command;

use larder_testkit::{needs, program};

use crate::api::Site;

#[tokio::test(flavor = "multi_thread")]
async fn apollo_client_works_behind_the_cache() {
    run("apollo.mjs").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn urql_works_behind_the_cache() {
    run("urql.mjs").await;
}

/// Runs a script of `tests/graphql/clients` with the address of a served API. Node.js finds the packages in the folder
/// that `cargo xtask install` has made below the target folder, so the script is copied to a folder in it.
async fn run(script: &str) {
    let Some(node) = program("node") else { return };
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it is in the target folder");
    let folder = target.join("graphql-clients");
    let is_installed = folder.join("node_modules/@apollo/client").is_dir();
    let Some(()) = needs("the npm package @apollo/client", is_installed) else { return };
    let folder = folder.join(script.trim_end_matches(".mjs"));
    std::fs::create_dir_all(&folder).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/graphql/clients");
    for file in ["recorder.mjs", script] {
        std::fs::write(folder.join(file), std::fs::read(source.join(file)).unwrap()).unwrap();
    }

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}/graphql", listener.local_addr().unwrap());
    let server = tokio::spawn(axum::serve(listener, Site::new().router).into_future());
    let mut command = Command::new(node);
    command.arg(script).arg(endpoint).current_dir(folder);
    let ended = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    server.abort();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}
