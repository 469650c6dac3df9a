//! The files of the dashboard, by their paths.

use larder_web::Asset;

const fn script(bytes: &'static [u8]) -> Asset {
    Asset::new("text/javascript; charset=utf-8", bytes)
}

pub(crate) static ASSETS: [(&str, Asset); 8] = [
    ("/", Asset::new("text/html; charset=utf-8", include_bytes!("../../static/index.html"))),
    ("/style.css", Asset::new("text/css; charset=utf-8", include_bytes!("../../static/style.css"))),
    ("/app.js", script(include_bytes!("../../static/app.js"))),
    ("/elements.js", script(include_bytes!("../../static/elements.js"))),
    ("/format.js", script(include_bytes!("../../static/format.js"))),
    ("/purge.js", script(include_bytes!("../../static/purge.js"))),
    ("/samples.js", script(include_bytes!("../../static/samples.js"))),
    ("/views.js", script(include_bytes!("../../static/views.js"))),
];
