//! HTTP/1.1 without a client library, for requests that no library sends.

use std::io;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::io::{AsyncRead, AsyncWrite, ReadHalf, WriteHalf};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::{Answer, Api, SOON};

/// One connection.
pub struct Wire<S = TcpStream> {
    read: BufReader<ReadHalf<S>>,
    write: WriteHalf<S>,
}

/// An answer with its headers.
#[derive(Debug)]
pub struct Reply {
    pub head: String,
    pub answer: Answer,
}

impl Reply {
    pub fn has(&self, header: &str) -> bool {
        self.head
            .lines()
            .any(|line| line.eq_ignore_ascii_case(header))
    }
}

impl Wire {
    pub async fn connect(api: &Api) -> Self {
        let address = api.origin.strip_prefix("http://").unwrap();
        Self::over(TcpStream::connect(address).await.unwrap())
    }

    /// Connects from this address of this machine.
    pub async fn connect_from(api: &Api, from: &str) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
        let address = api.origin.strip_prefix("http://").unwrap();
        Self::over(socket.connect(address.parse().unwrap()).await.unwrap())
    }
}

impl<S: AsyncRead + AsyncWrite> Wire<S> {
    pub fn over(stream: S) -> Self {
        let (read, write) = tokio::io::split(stream);
        Self {
            read: BufReader::new(read),
            write,
        }
    }

    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.write.write_all(bytes.as_ref()).await
    }

    /// Sends a request with a JSON body.
    pub async fn post(&mut self, path: &str, body: &Value) -> Reply {
        let reply = self.post_or_closed(path, body).await;
        reply.expect("an answer")
    }

    /// Posts the body and returns the answer; `None` if the connection was closed instead.
    pub async fn post_or_closed(&mut self, path: &str, body: &Value) -> Option<Reply> {
        let body = body.to_string();
        let head = head("POST", path, &format!("content-length: {}\r\n", body.len()));
        self.send(head + &body).await.ok()?;
        self.reply().await
    }

    pub async fn get(&mut self, path: &str) -> Reply {
        self.send(head("GET", path, "")).await.unwrap();
        self.reply().await.expect("an answer")
    }

    /// Sends a GET and returns the status of the answer; `None` if the connection was closed
    /// instead.
    pub async fn get_or_closed(&mut self, path: &str) -> Option<u16> {
        self.send(head("GET", path, "")).await.ok()?;
        Some(self.reply().await?.answer.0)
    }

    /// Returns the next answer; `None` if the connection was closed instead.
    pub async fn reply(&mut self) -> Option<Reply> {
        self.reply_to("GET").await
    }

    /// Returns the next answer, to a request with this method; an answer to `HEAD` has no body.
    pub async fn reply_to(&mut self, method: &str) -> Option<Reply> {
        let reply = self.read_reply(method != "HEAD");
        timeout(SOON, reply).await.expect("in time")
    }

    async fn read_reply(&mut self, has_body: bool) -> Option<Reply> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            match self.read.read_line(&mut head).await {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
        }
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            let is_it = name.eq_ignore_ascii_case("content-length");
            is_it.then(|| value.parse::<usize>().unwrap())
        });
        let mut body = vec![0; length.filter(|_| has_body).unwrap_or(0)];
        self.read.read_exact(&mut body).await.ok()?;
        let value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        Some(Reply {
            head,
            answer: (status, value),
        })
    }

    /// Takes up to this number of bytes, and returns how many it got; 0 if the connection is closed.
    pub async fn take(&mut self, most: usize) -> usize {
        let mut bytes = vec![0; most];
        self.read.read(&mut bytes).await.unwrap_or(0)
    }

    /// Returns whether an answer begins within this time.
    pub async fn answers_within(&mut self, time: Duration) -> bool {
        timeout(time, self.read.fill_buf()).await.is_ok()
    }

    /// Returns whether the server closes the connection within this time without sending anything
    /// more.
    pub async fn closes_within(&mut self, time: Duration) -> bool {
        let mut rest = Vec::new();
        match timeout(time, self.read.read_to_end(&mut rest)).await {
            Ok(_) => rest.is_empty(),
            Err(_) => false,
        }
    }
}

/// Returns the head of a request.
pub fn head(method: &str, path: &str, more: &str) -> String {
    let json = if method == "GET" {
        ""
    } else {
        "content-type: application/json\r\n"
    };
    format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n{json}{more}\r\n")
}

/// Returns the head of a request with exactly `bytes` bytes.
pub fn head_of(bytes: usize, method: &str, path: &str, more: &str) -> String {
    let bare = head(method, path, &format!("x-pad: \r\n{more}")).len();
    let pad = "x".repeat(bytes - bare);
    let head = head(method, path, &format!("x-pad: {pad}\r\n{more}"));
    assert_eq!(head.len(), bytes);
    head
}
