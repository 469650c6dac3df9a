//! Random bytes of the operating system, for what no other process may have: tokens, sessions, the key of a database's slugs.
//!
//! No generator of this process is between them and the system. A fork copies a generator, SQLite's too, and two children would
//! draw the same secrets.

/// Random bytes. Cost: a system call.
///
/// # Panics
/// If the operating system has none, which is a broken system: nothing secret could be made.
pub(crate) fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system has random bytes");
    bytes
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::model::token::Secret;
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::fd::FromRawFd;

    /// What a forked child of this thread draws.
    fn drawn_in_a_child(draw: fn() -> String) -> String {
        let mut ends = [0; 2];
        // SAFETY: the array has room for two descriptors.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        // SAFETY: both descriptors are open, and nothing else owns them.
        let (mut reader, mut writer) = unsafe { (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1])) };
        // SAFETY: the child takes no lock of another thread but that of the allocator, which fork leaves usable, and ends without
        // running anything else of this process.
        let child = unsafe { libc::fork() };
        assert!(child >= 0, "{}", std::io::Error::last_os_error());
        if child == 0 {
            let _ = writer.write_all(draw().as_bytes());
            // SAFETY: it ends the process.
            unsafe { libc::_exit(0) };
        }
        drop(writer);
        let mut drawn = String::new();
        reader.read_to_string(&mut drawn).expect("the child writes a text");
        let mut status = 0;
        // SAFETY: the child was not waited for.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        drawn
    }

    #[test]
    fn forked_children_draw_different_secrets() {
        let key: fn() -> String = || format!("{:?}", bytes::<16>());
        let token: fn() -> String = || Secret::new_token().as_str().to_owned();
        let session: fn() -> String = || Secret::new_session().as_str().to_owned();
        for draw in [key, token, session] {
            // A generator of this thread would exist from here on, and each child would have a copy of it.
            draw();
            let (one, other) = (drawn_in_a_child(draw), drawn_in_a_child(draw));
            assert!(!one.is_empty() && one != other, "{one}");
        }
    }
}
