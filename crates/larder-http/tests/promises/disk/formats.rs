//! Folders that each format has left. A cache that cannot read one of them any more must give its format another number, so that
//! an upgrade begins with an empty folder and not with a wrong one.

use std::future::ready;

use larder_http::Outcome;

use super::*;

/// Each was written by a cache that ended cleanly. Its responses are fresh for a century.
const FORMATS: [&str; 1] = ["1"];

#[tokio::test]
async fn folder_of_every_format_is_read() {
    for format in FORMATS {
        let folder = Folder::new();
        let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/promises/disk/formats").join(format);
        copy_folder(&kept, &folder.path);
        let site = folder.site(|_, _| ready(plain("handler")));
        for (path, accept, body) in [
            ("/plain", "text/plain", "a body"),
            ("/negotiated", "text/plain", "for text/plain"),
            ("/negotiated", "text/html", "for text/html"),
        ] {
            let found = site.send(request("GET", path, &[("accept", accept)])).await;
            assert_eq!(found.body, body, "format {format}: {path}");
            assert!(matches!(found.outcome, Outcome::Disk { .. }), "format {format}: {:?}", found.outcome);
        }
        let plain = site.get("/plain").await;
        assert_eq!((plain.header("etag"), plain.header("x-made-by")), (Some("\"e\""), Some("handler")));
        assert_eq!(site.get("/purged").await.body, "handler", "format {format}: the journal has its purge");
        site.cache.purge_tag("kept tag");
        assert_eq!(site.get("/plain").await.body, "handler", "format {format}: the entry has its tags");
    }
}
