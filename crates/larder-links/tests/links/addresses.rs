//! An address means to a browser what it means to the shortener: its parser is compared with that of Node, which is
//! the browsers' own algorithm in another implementation.

use larder_links::{Address, AddressError};
use larder_testkit::program;
use std::io::Write;
use std::process::{Command, Stdio};

const INPUTS: &[&str] = &[
    "http://example.com",
    "HTTP://EXAMPLE.com:80/%7Efoo/../bar?q=%zz#frag ment",
    "https://example.com:443/a/./b/../c",
    "https://example.com:0443/",
    "https://example.com:65536/",
    "https://example.com:-1/",
    "https://example.com:/",
    "http:example.com",
    "http:/example.com",
    "http:///example.com",
    "http:////example.com",
    "http:\\\\example.com",
    "http:/\\example.com",
    "http://\\example.com",
    "http://example.com\\@other.example/",
    "http://example.com/\\..\\x",
    "http://other.example#@example.com/",
    "http://other.example?@example.com/",
    "http://example.com@other.example/",
    "http://user:pass@example.com/",
    "http://@example.com/",
    "http://:@example.com/",
    "http://%40example.com/",
    "http://ex%61mple.com/",
    "http://example%2Ecom/",
    "http://example.com%00/",
    "http://exa\u{ad}mple.com/",
    "http://exa\u{200b}mple.com/",
    "http://ＥＸＡＭＰＬＥ.com/",
    "http://example。com/",
    "http://bücher.example/straße?ü#ß",
    "http://xn--bcher-kva.example/",
    "http://xn--a/",
    "http://xn--/",
    "http://faß.de/",
    "http://☃.net/",
    "http://ﬁ.example/",
    "http://1.2.3/",
    "http://0x7f.1/",
    "http://0177.0.0.1/",
    "http://2130706433/",
    "http://4294967296/",
    "http://1.2.3.4.5/",
    "http://1.2.3.08/",
    "http://0x100.0.0.1/",
    "http://127.0.0.1./",
    "http://127.0.0.1.example/",
    "http://0/",
    "http://0.0.0.0:80/",
    "http://[::]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::FFFF:7f00:1]:8080/",
    "http://[1:2:3:4:5:6:7:8]/",
    "http://[1::2::3]/",
    "http://[::1%25eth0]/",
    "http://[::1/",
    "http://::1/",
    "http://[127.0.0.1]/",
    "http://example.com./",
    "http://example..com/",
    "http://.example.com/",
    "http://-example-.com/",
    "http://exa mple.com/",
    "http://exa<mple.com/",
    "http://a_b.example/",
    "http://*/",
    "http://!$&'()*+,;=/",
    "http:// /",
    "http://",
    "http://?",
    "http://#",
    "http:",
    "http",
    "://example.com",
    "//example.com",
    "example.com",
    "example.com:80/",
    "localhost:8080/x",
    "javascript:alert(1)",
    "javascript://example.com/%0aalert(1)",
    "data:text/html,x",
    "ftp://example.com/",
    "ws://example.com/",
    "blob:https://example.com/x",
    "view-source:http://example.com/",
    "file:///etc/passwd",
    "https://example.com/\u{202e}gpj.exe",
    "https://example.com/\u{feff}",
    "https://example.com/a b\"<>`{}|^[]\\",
    "https://example.com/?a b\"<>`{}|^[]\\'",
    "https://example.com/#a b\"<>`{}|^[]\\",
    "https://example.com/%2e%2e/%2E/x",
    "https://example.com/?next=https://other.example/%2F%0d%0aSet-Cookie:x",
    " \t\r\n\u{c}https://example.com/ \n",
    "\u{a0}https://example.com/",
    "\u{3000}https://example.com/",
    "https://example.com/\t",
    "https://exam\tple.com/",
    "https://example.com/\r\nX: y",
    "ht\ntps://example.com/",
    "https://example.com/\0",
    "\u{1}https://example.com/",
    "https://example.com/\u{7f}",
    "https://example.com/\u{80}",
    "https://example.com/\u{fffd}\u{10ffff}",
];

#[test]
fn address_has_the_meaning_that_browsers_give_it() {
    let Some(node) = program("node") else { return };
    let hrefs = hrefs(&node);
    assert_eq!(hrefs.len(), INPUTS.len());
    let mut accepted = 0;
    for (input, href) in INPUTS.iter().zip(hrefs) {
        match (Address::parse(input), href) {
            (Ok(address), href) => {
                accepted += 1;
                assert_eq!(Some(address.as_str()), href.as_deref(), "{input:?}");
                assert!(address.as_str().bytes().all(|byte| byte.is_ascii_graphic()), "{input:?}");
                assert_eq!(
                    Address::parse(address.as_str()),
                    Ok(address),
                    "{input:?} changes when parsed again"
                );
            }
            (Err(_), None) => {}
            // What a browser accepts is refused by a rule of ours only, never for its syntax.
            (Err(error), Some(href)) => assert!(
                matches!(
                    error,
                    AddressError::Control(_)
                        | AddressError::Scheme(_)
                        | AddressError::NoSlashes
                        | AddressError::Credentials
                ),
                "{input:?} is {href} to a browser, and here {error}"
            ),
        }
    }
    assert!(accepted >= 40, "only {accepted} of the inputs are accepted");
}

/// What Node makes of each input, or `None` for one that it refuses.
fn hrefs(node: &std::path::Path) -> Vec<Option<String>> {
    const SCRIPT: &str = "let text = ''; process.stdin.setEncoding('utf8').on('data', (part) => { text += part; })\
        .on('end', () => console.log(JSON.stringify(JSON.parse(text).map((input) => URL.canParse(input) ? new URL(input).href : null))))";
    let mut child = Command::new(node)
        .args(["-e", SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("node starts");
    let inputs = serde_json::to_vec(INPUTS).expect("strings are JSON");
    child.stdin.take().expect("a pipe").write_all(&inputs).expect("node reads its input");
    let output = child.wait_with_output().expect("node ends");
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).expect("an array of strings and nulls")
}
