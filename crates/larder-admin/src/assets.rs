//! The three files of the dashboard.

use larder_web::Asset;

pub(crate) static INDEX: Asset =
    Asset::new("text/html; charset=utf-8", include_bytes!("../static/index.html"));
pub(crate) static SCRIPT: Asset =
    Asset::new("text/javascript; charset=utf-8", include_bytes!("../static/app.js"));
pub(crate) static STYLE: Asset = Asset::new("text/css; charset=utf-8", include_bytes!("../static/style.css"));
