//! A connection that sends any commands to a server and shows any reply: a program without this library.

use larder_testkit::{PATIENCE, RedisServer};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;

/// A reply of RESP2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Nil,
    Number(i64),
    Bytes(Vec<u8>),
    List(Vec<Reply>),
    Error(String),
}

impl Reply {
    /// # Panics
    /// If it is no string.
    pub(crate) fn bytes(self) -> Vec<u8> {
        match self {
            Reply::Bytes(bytes) => bytes,
            other => panic!("{other:?} is no string"),
        }
    }

    /// # Panics
    /// If it is no list.
    pub(crate) fn list(self) -> Vec<Reply> {
        match self {
            Reply::List(list) => list,
            other => panic!("{other:?} is no list"),
        }
    }
}

pub(crate) struct Raw(BufReader<UnixStream>);

impl Raw {
    pub(crate) fn to(server: &RedisServer) -> Self {
        let stream = UnixStream::connect(server.socket()).expect("the server runs");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
        Raw(BufReader::new(stream))
    }

    /// Sends a command and returns its reply.
    pub(crate) fn call<A: AsRef<[u8]>>(&mut self, command: impl IntoIterator<Item = A>) -> Reply {
        let arguments: Vec<A> = command.into_iter().collect();
        let mut request = format!("*{}\r\n", arguments.len()).into_bytes();
        for argument in arguments.iter().map(AsRef::as_ref) {
            request.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
            request.extend_from_slice(argument);
            request.extend_from_slice(b"\r\n");
        }
        self.0.get_mut().write_all(&request).expect("the server reads");
        self.next()
    }

    /// The same with words.
    pub(crate) fn words(&mut self, command: &str) -> Reply {
        self.call(command.split(' '))
    }

    /// The next reply or message.
    pub(crate) fn next(&mut self) -> Reply {
        let mut line = Vec::new();
        self.0.read_until(b'\n', &mut line).expect("the server replies");
        let (kind, rest) = line.trim_ascii_end().split_first().expect("the connection is open");
        let number = || String::from_utf8_lossy(rest).parse::<i64>().expect("a number");
        match kind {
            b':' => Reply::Number(number()),
            b'-' => Reply::Error(String::from_utf8_lossy(rest).into_owned()),
            b'$' if number() >= 0 => {
                let mut bytes = vec![0; number() as usize + 2];
                self.0.read_exact(&mut bytes).expect("the whole reply");
                bytes.truncate(bytes.len() - 2);
                Reply::Bytes(bytes)
            }
            b'*' if number() >= 0 => Reply::List((0..number()).map(|_| self.next()).collect()),
            b'$' | b'*' => Reply::Nil,
            _ => Reply::Bytes(rest.to_vec()),
        }
    }
}
