//! The origin behind the proxies: a process of its own, so that it can be killed. It answers with the version of a page that is
//! in a file, may be cached for a minute, and answers conditional requests.

use anyhow::{Context, Result};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;

/// The longest page has about so many bytes.
const LONGEST: usize = 24 << 10;

/// Serves the pages in a folder until its standard input ends, as it does with the process that has started it.
pub(crate) fn serve(address: &str, folder: &str) -> Result<()> {
    let listener = TcpListener::bind(address).with_context(|| format!("cannot bind {address}"))?;
    std::thread::spawn(|| {
        _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    for stream in listener.incoming().flatten() {
        let folder = folder.to_owned();
        std::thread::spawn(move || serve_connection(stream, Path::new(&folder)));
    }
    Ok(())
}

/// Answers requests without bodies until the client closes the connection.
fn serve_connection(mut stream: TcpStream, folder: &Path) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut input = BufReader::new(stream.try_clone()?);
    loop {
        let (mut path, mut condition) = (String::new(), None);
        loop {
            let mut line = String::new();
            if input.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let line = line.trim_end();
            match line.split_once(": ") {
                _ if line.is_empty() => break,
                _ if path.is_empty() => path = line.split(' ').nth(1).unwrap_or_default().to_owned(),
                Some((name, value)) if name.eq_ignore_ascii_case("if-none-match") => {
                    condition = Some(value.to_owned());
                }
                _ => {}
            }
        }
        stream.write_all(&answer(folder, &path, condition.as_deref()))?;
    }
}

fn answer(folder: &Path, path: &str, condition: Option<&str>) -> Vec<u8> {
    let page = path.strip_prefix("/page/").and_then(|number| number.parse::<usize>().ok());
    let version = page.and_then(|page| std::fs::read_to_string(folder.join(page.to_string())).ok());
    let Some((page, version)) = page.zip(version) else {
        return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec();
    };
    let etag = format!("\"{page}-{version}\"");
    let fields = format!("Cache-Control: max-age=60\r\nETag: {etag}\r\n");
    if condition == Some(&etag) {
        return format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\n").into_bytes();
    }
    let body = format!("version {version}\n{}", "a line of the page\n".repeat(page * 7 % (LONGEST / 19)));
    format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// The path of a page.
pub(super) fn path(page: usize) -> String {
    format!("/page/{page}")
}

/// Changes the version of a page, in one step.
pub(super) fn write(folder: &Path, page: usize, version: u64) -> Result<()> {
    let (file, new) = (folder.join(page.to_string()), folder.join("new"));
    std::fs::write(&new, version.to_string()).and_then(|()| std::fs::rename(&new, &file))?;
    Ok(())
}

/// The version in the body of a page.
pub(super) fn version_in(body: &[u8]) -> Option<u64> {
    let line = body.split(|byte| *byte == b'\n').next()?;
    std::str::from_utf8(line).ok()?.strip_prefix("version ")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_has_its_version_and_a_validator() {
        let folder = std::env::temp_dir().join(format!("larder-soak-origin-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        write(&folder, 5, 8).unwrap();
        let text = |condition| String::from_utf8(answer(&folder, "/page/5", condition)).unwrap();
        let full = text(None);
        assert!(full.starts_with("HTTP/1.1 200 OK\r\n") && full.contains("ETag: \"5-8\"\r\n"), "{full}");
        let (_, body) = full.split_once("\r\n\r\n").unwrap();
        assert_eq!(version_in(body.as_bytes()), Some(8));
        assert!(text(Some("\"5-8\"")).starts_with("HTTP/1.1 304 "));
        assert!(text(Some("\"5-7\"")).starts_with("HTTP/1.1 200 "));
        assert!(answer(&folder, "/page/6", None).starts_with(b"HTTP/1.1 404 "));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
