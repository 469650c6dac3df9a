//! Opens a snapshot, and removes its file: it is read once.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use super::layout::{FOOTER_BYTES, Footer, INDEXED_BYTES, PLACE_BYTES, Place, block_of, checksum, take_u64};
use super::loading::Loading;
use super::unfinished;
use crate::error::SnapshotError;

/// Opens the snapshot at this path for one loading, and removes its file; `None` if there is none. A file that is not a
/// snapshot stays.
///
/// Cost: it reads eight bytes for each entry of the snapshot, and keeps them until the end of the loading.
pub(crate) fn open(path: &Path) -> Result<Option<Loading>, SnapshotError> {
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let length = file.metadata()?.len();
    let Some(footer_at) = length.checked_sub(FOOTER_BYTES as u64) else {
        return Err(SnapshotError::Damaged("it is too short"));
    };
    let mut footer = [0; FOOTER_BYTES];
    file.read_exact_at(&mut footer, footer_at)?;
    let footer = Footer::read(&footer, length)?;
    let (places, index) = tables(&file, &footer)?;
    std::fs::remove_file(path)?;
    sync_folder_of(path)?;
    Ok(Some(Loading::new(file, &footer, places, index)))
}

/// The directory and the index. Their length was compared with that of the file, so the memory for them follows what there is.
fn tables(file: &File, footer: &Footer) -> Result<(Vec<Place>, Vec<u64>), SnapshotError> {
    let length = footer.tables_bytes().and_then(|bytes| usize::try_from(bytes).ok());
    let length = length.ok_or(SnapshotError::Damaged("its index is too long"))?;
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, footer.directory)?;
    if checksum(&bytes) != footer.checksum {
        return Err(SnapshotError::Damaged("its index has a wrong checksum"));
    }
    let (directory, index) = bytes.split_at(footer.blocks as usize * PLACE_BYTES);
    let places: Vec<Place> = directory.chunks_exact(PLACE_BYTES).map(Place::read).collect();
    let index: Vec<u64> = index.chunks_exact(INDEXED_BYTES).map(|bytes| take_u64(bytes).0).collect();
    let is_inside =
        |place: &Place| place.offset.checked_add(place.length).is_some_and(|end| end <= footer.directory);
    if !places.iter().all(is_inside) || index.iter().any(|&it| block_of(it) >= footer.blocks) {
        return Err(SnapshotError::Damaged("its index names blocks that are not there"));
    }
    Ok((places, index))
}

/// Fails if no snapshot could be written at this path: it is better known at the start than at the end.
pub(crate) fn check_writable(path: &Path) -> io::Result<()> {
    let new = unfinished(path);
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    std::fs::remove_file(new)
}

/// Brings a change of the folder of a file to the disk.
pub(super) fn sync_folder_of(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}
