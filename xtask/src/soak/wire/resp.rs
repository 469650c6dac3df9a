//! A client of the Redis protocol with one connection: one command at a time, or a pipeline.

use super::connect;
use std::io::{BufRead, BufReader, Error, Result, Write};
use std::net::{SocketAddr, TcpStream};

/// As for HTTP.
const COMMANDS_PER_CONNECTION: usize = 1_000;

/// A client of one address.
#[derive(Debug)]
pub(crate) struct Resp {
    address: SocketAddr,
    connection: Option<BufReader<TcpStream>>,
    commands: usize,
}

/// What the server replies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Nil,
    Text(Vec<u8>),
    Number(i64),
    List(Vec<Reply>),
    Error(String),
}

impl Resp {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Resp { address, connection: None, commands: 0 }
    }

    pub(crate) fn command(&mut self, words: &[&str]) -> Result<Reply> {
        let mut replies = self.pipeline(&[words.to_vec()])?;
        replies.pop().ok_or_else(|| Error::other("there is no reply"))
    }

    /// Sends all commands, and then reads their replies.
    pub(crate) fn pipeline(&mut self, commands: &[Vec<&str>]) -> Result<Vec<Reply>> {
        let mut connection = match self.connection.take() {
            Some(connection) if self.commands < COMMANDS_PER_CONNECTION => connection,
            _ => {
                self.commands = 0;
                connect(self.address)?
            }
        };
        self.commands += commands.len();
        let mut request = String::new();
        for words in commands {
            request += &format!("*{}\r\n", words.len());
            words.iter().for_each(|word| request += &format!("${}\r\n{word}\r\n", word.len()));
        }
        connection.get_mut().write_all(request.as_bytes())?;
        let replies = commands.iter().map(|_| read(&mut connection)).collect::<Result<_>>()?;
        self.connection = Some(connection);
        Ok(replies)
    }
}

fn read(connection: &mut impl BufRead) -> Result<Reply> {
    let mut line = String::new();
    connection.read_line(&mut line)?;
    let line = line.strip_suffix("\r\n").ok_or_else(|| Error::other("the connection was closed"))?;
    let broken = || Error::other(format!("{line:?} is no reply"));
    let rest = line.get(1..).ok_or_else(broken)?;
    let number = || rest.parse::<i64>().map_err(|_| broken());
    match line.as_bytes()[0] {
        b'+' => Ok(Reply::Text(rest.as_bytes().to_vec())),
        b'-' => Ok(Reply::Error(rest.to_owned())),
        b':' => number().map(Reply::Number),
        b'$' => match usize::try_from(number()?) {
            Ok(length) => {
                let mut bytes = vec![0; length + 2];
                connection.read_exact(&mut bytes)?;
                bytes.truncate(length);
                Ok(Reply::Text(bytes))
            }
            Err(_) => Ok(Reply::Nil),
        },
        b'*' => match usize::try_from(number()?) {
            Ok(length) => (0..length).map(|_| read(connection)).collect::<Result<_>>().map(Reply::List),
            Err(_) => Ok(Reply::Nil),
        },
        _ => Err(broken()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_reply_is_read() {
        let mut connection = &b"+OK\r\n-ERR no\r\n:-5\r\n$4\r\na\r\nb\r\n$-1\r\n*2\r\n:1\r\n$0\r\n\r\n"[..];
        let replies: Vec<Reply> = (0..6).map(|_| read(&mut connection).unwrap()).collect();
        let text = |text: &str| Reply::Text(text.into());
        let list = Reply::List(vec![Reply::Number(1), text("")]);
        let error = Reply::Error("ERR no".to_owned());
        let expected = [text("OK"), error, Reply::Number(-5), text("a\r\nb"), Reply::Nil, list];
        assert_eq!(replies, expected);
        assert!(read(&mut connection).is_err());
    }
}
