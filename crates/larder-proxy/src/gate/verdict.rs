//! What an answer of the gate means.

use crate::origin::response_body::{OriginBody, OriginBodyError};
use http::header::HeaderName;
use http::response::Parts;
use http_body::Body;
use larder_http::Access;
use std::future::poll_fn;
use std::pin::Pin;

/// The longest name of a principal, in bytes.
const MAX_PRINCIPAL_BYTES: usize = 256;
/// The most that is read of the answer's body, in bytes. Beyond it the connection is closed.
const MAX_BODY_BYTES: usize = 64 << 10;

/// The verdict of an answer: a success allows, 401 and 403 deny. The error says why it is none.
pub(super) fn of(answer: &Parts, principal_header: &HeaderName) -> Result<Access, String> {
    match answer.status.as_u16() {
        200..=299 => {}
        401 | 403 => return Ok(Access::Denied),
        _ => return Err(format!("it responded with {}", answer.status)),
    }
    let mut values = answer.headers.get_all(principal_header).iter();
    let Some(value) = values.next() else { return Ok(Access::Allowed) };
    let principal = value.to_str().ok().filter(|name| (1..=MAX_PRINCIPAL_BYTES).contains(&name.len()));
    match (principal, values.next()) {
        (Some(principal), None) => Ok(Access::AllowedAs(principal.to_owned())),
        _ => Err(format!(
            "its {principal_header} is not one name of 1 to {MAX_PRINCIPAL_BYTES} visible characters"
        )),
    }
}

/// Reads the body, which means nothing, so that its connection can have the next question.
pub(super) async fn read_rest(mut body: OriginBody) -> Result<(), OriginBodyError> {
    let mut read = 0;
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        read += frame?.data_ref().map_or(0, |data| data.len());
        if read > MAX_BODY_BYTES {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderValue, Response};

    fn verdict(status: u16, principals: &[&[u8]]) -> Result<Access, String> {
        let name = HeaderName::from_static("x-principal");
        let mut answer = Response::new(());
        *answer.status_mut() = status.try_into().unwrap();
        for principal in principals {
            answer.headers_mut().append(&name, HeaderValue::from_bytes(principal).unwrap());
        }
        of(&answer.into_parts().0, &name)
    }

    #[test]
    fn success_allows_and_refusal_denies() {
        for status in [200, 204] {
            assert_eq!(verdict(status, &[]), Ok(Access::Allowed));
            assert_eq!(verdict(status, &[b"ann"]), Ok(Access::AllowedAs("ann".into())));
        }
        for status in [401, 403] {
            assert_eq!(verdict(status, &[b"ann"]), Ok(Access::Denied));
        }
    }

    #[test]
    fn other_answer_is_no_verdict() {
        for status in [301, 302, 304, 400, 404, 429, 500, 503] {
            let message = verdict(status, &[b"ann"]).unwrap_err();
            assert!(message.starts_with(&format!("it responded with {status}")), "{message}");
        }
        let long = [b'a'; MAX_PRINCIPAL_BYTES + 1];
        for principals in [&[&b""[..]][..], &[b"ann", b"bob"], &[b"\xff"], &[&long]] {
            let message = verdict(200, principals).unwrap_err();
            assert!(message.starts_with("its x-principal is not one name"), "{message}");
        }
        assert!(verdict(200, &[&long[1..]]).is_ok());
    }
}
