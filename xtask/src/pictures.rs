//! Copies the screenshots of the browser tests from the target folder to `docs/pictures`.

use crate::workspace::{files_below, root, target};
use anyhow::{Context, Result, bail};

/// Copies all screenshots.
pub(crate) fn copy() -> Result<()> {
    let screenshots = files_below(&target().join("screenshots"), ".png");
    if screenshots.is_empty() {
        bail!("there are no screenshots: run `cargo test -p larder-cli --test cli pages` first");
    }
    let folder = root().join("docs/pictures");
    std::fs::create_dir_all(&folder).context("cannot create docs/pictures")?;
    for picture in screenshots {
        let name = picture.file_name().context("a picture has a name")?;
        std::fs::copy(&picture, folder.join(name))
            .with_context(|| format!("cannot copy {}", picture.display()))?;
        println!("docs/pictures/{}", name.display());
    }
    Ok(())
}
