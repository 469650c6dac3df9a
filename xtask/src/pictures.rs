//! Copies the screenshots that the browser tests have made below the target folder to `docs/pictures`.

use crate::workspace::{files_below, root, target};
use anyhow::{Context, Result, bail};

/// Copies all screenshots.
pub(crate) fn copy() -> Result<()> {
    let made = files_below(&target().join("screenshots"), ".png");
    if made.is_empty() {
        bail!("there are no screenshots: run `cargo test -p larder-cli --test cli pages` first");
    }
    let folder = root().join("docs/pictures");
    std::fs::create_dir_all(&folder).context("cannot make docs/pictures")?;
    for picture in made {
        let name = picture.file_name().context("a picture has a name")?;
        std::fs::copy(&picture, folder.join(name))
            .with_context(|| format!("cannot copy {}", picture.display()))?;
        println!("docs/pictures/{}", name.display());
    }
    Ok(())
}
