//! Cutting a stream of RESP2 or RESP3 into whole frames, without looking into them further than that takes.

/// Bytes that have arrived and not been taken as frames.
#[derive(Debug, Default)]
pub(crate) struct Frames(Vec<u8>);

impl Frames {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The next whole frame.
    pub(crate) fn next(&mut self) -> Option<Vec<u8>> {
        let end = end_of_frame(&self.0, 0)?;
        let rest = self.0.split_off(end);
        Some(std::mem::replace(&mut self.0, rest))
    }
}

/// Where the frame that begins at `at` ends, if it has all arrived.
fn end_of_frame(bytes: &[u8], at: usize) -> Option<usize> {
    let line_end = at + bytes.get(at..)?.windows(2).position(|window| window == b"\r\n")?;
    let after_line = line_end + 2;
    let number = || std::str::from_utf8(&bytes[at + 1..line_end]).ok()?.parse::<i64>().ok();
    let parts = match bytes[at] {
        b'$' | b'=' | b'!' => {
            let Some(length @ 0..) = number() else { return Some(after_line) };
            let end = after_line + length as usize + 2;
            return (bytes.len() >= end).then_some(end);
        }
        b'*' | b'>' | b'~' => number().unwrap_or(0).max(0),
        b'%' => 2 * number().unwrap_or(0),
        // Attributes belong to the frame that follows them.
        b'|' => 2 * number().unwrap_or(0) + 1,
        _ => return Some(after_line),
    };
    (0..parts).try_fold(after_line, |at, _| end_of_frame(bytes, at))
}

/// The name of the command in a request, in capitals.
pub(crate) fn command(request: &[u8]) -> String {
    let mut lines = request.split(|byte| *byte == b'\n');
    let word = if request.starts_with(b"*") { lines.nth(2) } else { lines.next() };
    let word = word.unwrap_or_default().split(|byte| *byte == b' ').next().unwrap_or_default();
    String::from_utf8_lossy(word).trim().to_ascii_uppercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_cut_where_they_end() {
        let stream = b"*2\r\n$3\r\nget\r\n$1\r\nk\r\n+OK\r\n$-1\r\n>2\r\n$1\r\na\r\n*1\r\n:7\r\n%1\r\n+k\r\n_\r\nPING\r\n";
        let wanted = [20, 5, 5, 19, 11, 6];
        let mut frames = Frames::default();
        let mut lengths = Vec::new();
        for byte in stream {
            frames.push(&[*byte]);
            lengths.extend(frames.next().map(|frame| frame.len()));
        }
        assert_eq!(lengths, wanted);
        assert_eq!(command(stream), "GET");
        assert_eq!(command(b"ping\r\n"), "PING");
    }
}
