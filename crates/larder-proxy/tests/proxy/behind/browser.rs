//! A client with cookies, as far as the pages need one.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, COOKIE, HOST, ORIGIN, SET_COOKIE};
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use std::collections::BTreeMap;
use tokio::net::TcpStream;

/// A browser that visits one host.
pub(super) struct Browser {
    address: String,
    cookies: BTreeMap<String, String>,
}

/// What it got.
pub(super) struct Page {
    pub(super) status: u16,
    fields: HeaderMap,
    body: Vec<u8>,
    /// In so many parts the body came.
    pub(super) frames: usize,
}

impl Page {
    pub(super) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("the pages are text")
    }

    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(|value| value.to_str().expect("the fields are ASCII"))
    }
}

impl Browser {
    /// Without cookies.
    pub(super) fn new(address: &str) -> Browser {
        Browser { address: address.to_owned(), cookies: BTreeMap::new() }
    }

    pub(super) async fn get(&mut self, path: &str) -> Page {
        self.send(Method::GET, path, "", Vec::new()).await
    }

    /// Submits a form with one field.
    pub(super) async fn submit(&mut self, path: &str, name: &str, value: &str) -> Page {
        let escape = |byte: u8| match byte {
            byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        };
        let body = format!("{name}={}", value.bytes().map(escape).collect::<String>());
        self.send(Method::POST, path, "application/x-www-form-urlencoded", body.into()).await
    }

    pub(super) async fn upload(&mut self, path: &str, body: Vec<u8>) -> Page {
        self.send(Method::POST, path, "application/octet-stream", body).await
    }

    async fn send(&mut self, method: Method, path: &str, content_type: &str, body: Vec<u8>) -> Page {
        let stream = TcpStream::connect(&self.address).await.expect("it listens");
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path).header(HOST, &self.address);
        if !content_type.is_empty() {
            request =
                request.header(CONTENT_TYPE, content_type).header(ORIGIN, format!("http://{}", self.address));
        }
        if !self.cookies.is_empty() {
            let pairs: Vec<_> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
            request = request.header(COOKIE, pairs.join("; "));
        }
        let response =
            sender.send_request(request.body(Full::new(Bytes::from(body))).unwrap()).await.unwrap();
        let (head, mut body) = response.into_parts();
        for cookie in head.headers.get_all(SET_COOKIE) {
            let pair = cookie.to_str().unwrap().split(';').next().unwrap_or_default();
            let (name, value) = pair.split_once('=').expect("a cookie has a name");
            self.cookies.insert(name.to_owned(), value.to_owned());
        }
        let mut page =
            Page { status: head.status.as_u16(), fields: head.headers, body: Vec::new(), frames: 0 };
        while let Some(frame) = body.frame().await {
            if let Ok(data) = frame.expect("the body arrives whole").into_data() {
                page.body.extend_from_slice(&data);
                page.frames += 1;
            }
        }
        page
    }
}
