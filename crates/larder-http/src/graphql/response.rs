//! Which responses to a query may be stored: a complete JSON object with `data` and without `errors`, under status 200.
//! The names at the top level decide, found by a scan of the body's chunks that keeps a few bytes of state.

use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{Response, StatusCode};
use memchr::memchr2;

use crate::headers::control::split_media_type;
use crate::status::Reason;

/// The longest name that matters.
const MAX_NAME: usize = 6;

/// Reads the chunks of a response's body.
#[derive(Debug, Default)]
pub(crate) struct ResponseScan {
    state: State,
    /// Objects and arrays around the position.
    depth: u64,
    /// The first bytes of the current name of the top level.
    name: Vec<u8>,
    has_data: bool,
    /// Why the response must not be stored.
    refusal: Option<Reason>,
}

/// The position between two bytes. Names are read at the top level only; below it they are strings like others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Before the object.
    #[default]
    Start,
    /// Before a name, or the end of the object.
    BeforeName,
    InName,
    /// Between a name and the next one, outside of strings.
    InValue,
    InString,
    /// In a string, after a backslash.
    Escape,
    /// After the object.
    End,
}

impl ResponseScan {
    /// Starts the scan of a response's body.
    ///
    /// # Errors
    /// `Status` unless it is 200, and `GraphqlResponse` unless the content is JSON without a coding.
    pub(crate) fn start<B>(response: &Response<B>) -> Result<ResponseScan, Reason> {
        if response.status() != StatusCode::OK {
            return Err(Reason::Status);
        }
        let headers = response.headers();
        let content_type = headers.get(CONTENT_TYPE).map_or(&b""[..], |value| value.as_bytes());
        let (media_type, _) = split_media_type(content_type);
        let is_json = [&b"application/json"[..], b"application/graphql-response+json"]
            .iter()
            .any(|json| media_type.eq_ignore_ascii_case(json));
        if is_json && !headers.contains_key(CONTENT_ENCODING) {
            Ok(ResponseScan::default())
        } else {
            Err(Reason::GraphqlResponse)
        }
    }

    /// Reads the next chunk. Cost: linear in its length.
    pub(crate) fn read(&mut self, mut chunk: &[u8]) {
        while self.refusal.is_none() {
            if self.state == State::InString {
                chunk = &chunk[memchr2(b'"', b'\\', chunk).unwrap_or(chunk.len())..];
            }
            let Some((byte, rest)) = chunk.split_first() else { return };
            match self.next_state(*byte) {
                Ok(state) => self.state = state,
                Err(reason) => self.refusal = Some(reason),
            }
            chunk = rest;
        }
    }

    fn next_state(&mut self, byte: u8) -> Result<State, Reason> {
        match (self.state, byte) {
            (State::Start | State::BeforeName | State::End, b' ' | b'\t' | b'\n' | b'\r') => Ok(self.state),
            (State::Start, b'{') => {
                self.depth = 1;
                Ok(State::BeforeName)
            }
            (State::BeforeName, b'"') => {
                self.name.clear();
                Ok(State::InName)
            }
            (State::BeforeName, b'}') => Ok(State::End),
            (State::InName, b'"') => self.end_name(),
            // An escape could spell a name that matters.
            (State::InName, b'\\') => Err(Reason::GraphqlResponse),
            (State::InName, _) => {
                if self.name.len() <= MAX_NAME {
                    self.name.push(byte);
                }
                Ok(State::InName)
            }
            (State::InValue, b'"') => Ok(State::InString),
            (State::InValue, b',') if self.depth == 1 => Ok(State::BeforeName),
            (State::InValue, b'{' | b'[') => {
                self.depth += 1;
                Ok(State::InValue)
            }
            (State::InValue, b'}' | b']') => {
                self.depth -= 1;
                Ok(if self.depth == 0 { State::End } else { State::InValue })
            }
            (State::InValue, _) => Ok(State::InValue),
            (State::InString, b'"') => Ok(State::InValue),
            (State::InString, b'\\') => Ok(State::Escape),
            (State::InString | State::Escape, _) => Ok(State::InString),
            (State::Start | State::BeforeName | State::End, _) => Err(Reason::GraphqlResponse),
        }
    }

    fn end_name(&mut self) -> Result<State, Reason> {
        match self.name.as_slice() {
            b"errors" => return Err(Reason::GraphqlErrors),
            b"data" => self.has_data = true,
            _ => {}
        }
        Ok(State::InValue)
    }

    /// Whether the response may be stored, after its last chunk.
    ///
    /// # Errors
    /// `GraphqlErrors` if it has top-level errors, `GraphqlResponse` if it is not a JSON object with `data`.
    pub(crate) fn finish(&self) -> Result<(), Reason> {
        match self.refusal {
            Some(reason) => Err(reason),
            None if self.state == State::End && self.has_data => Ok(()),
            None => Err(Reason::GraphqlResponse),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The verdict on a body, whatever chunks it arrives in.
    fn verdict(body: &str) -> Result<(), Reason> {
        let of_chunks = |size: usize| {
            let mut scan = ResponseScan::default();
            body.as_bytes().chunks(size).for_each(|chunk| scan.read(chunk));
            scan.finish()
        };
        let whole = of_chunks(body.len().max(1));
        for size in 1..body.len() {
            assert_eq!(of_chunks(size), whole, "{body} in chunks of {size}");
        }
        whole
    }

    #[test]
    fn errors_at_top_level_refuse() {
        for body in [
            r#"{"data":null,"errors":[{"message":"m"}]}"#,
            r#"{"errors":[],"data":{}}"#,
            r#" { "data" : {"a":["]}",{"b":"\\"}]} , "errors" : null } "#,
            r#"{"data":"\"","errors":[]}"#,
            r#"{"extensions":{"x":[1,{}]},"errors":[]"#,
        ] {
            assert_eq!(verdict(body), Err(Reason::GraphqlErrors), "{body}");
        }
    }

    #[test]
    fn errors_elsewhere_do_not_refuse() {
        for body in [
            r#"{"data":{"errors":[1],"a":{"errors":null}}}"#,
            r#"{"data":"\"errors\":"}"#,
            r#"{"data":[{"b":"},\"errors\":[]"}],"errors2":1,"error":2,"Errors":3}"#,
            " \n{\"data\":{}}\r\n\t",
            r#"{"data":null,"extensions":{}}"#,
        ] {
            assert_eq!(verdict(body), Ok(()), "{body}");
        }
    }

    #[test]
    fn body_that_is_no_complete_object_with_data_is_refused() {
        for body in [
            "",
            "null",
            "[]",
            "\"data\"",
            "{}",
            r#"{"message":"m"}"#,
            r#"{"data":{}"#,
            r#"{"data":{}}}"#,
            r#"{"data":{}}{"errors":[]}"#,
            r#"[{"data":{}}]"#,
            r#"{"data"#,
            r#"{"\u0065rrors":[],"data":{}}"#,
            "{data:1}",
            r#"{"data":"}"#,
            "\u{feff}{\"data\":{}}",
            r#"{"datum":{}}"#,
        ] {
            assert_eq!(verdict(body), Err(Reason::GraphqlResponse), "{body}");
        }
    }

    #[test]
    fn state_is_bounded() {
        let mut scan = ResponseScan::default();
        scan.read(b"{\"");
        (0..10_000).for_each(|_| scan.read(b"long name"));
        scan.read(b"\":");
        (0..10_000).for_each(|_| scan.read(b"[{\"a\":"));
        assert!(scan.name.capacity() < 100);
        assert_eq!(scan.finish(), Err(Reason::GraphqlResponse));
    }

    #[test]
    fn only_plain_json_with_status_200_is_scanned() {
        let start = |status: u16, fields: &[(&str, &str)]| {
            let mut response = Response::builder().status(status);
            for (name, value) in fields {
                response = response.header(*name, *value);
            }
            ResponseScan::start(&response.body(()).unwrap()).map(drop)
        };
        let json = ("content-type", "application/json; charset=utf-8");
        assert_eq!(start(200, &[json]), Ok(()));
        assert_eq!(start(200, &[("content-type", "Application/GraphQL-Response+JSON")]), Ok(()));
        assert_eq!(start(404, &[json]), Err(Reason::Status));
        assert_eq!(start(203, &[json]), Err(Reason::Status));
        for fields in [
            &[][..],
            &[("content-type", "text/html")],
            &[("content-type", "multipart/mixed; boundary=-")],
            &[("content-type", "text/event-stream")],
            &[json, ("content-encoding", "gzip")],
        ] {
            assert_eq!(start(200, fields), Err(Reason::GraphqlResponse), "{fields:?}");
        }
    }
}
