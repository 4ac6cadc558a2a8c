//! A minimal client that only writes a request and reads the answer, so that the load leaves the
//! processor to the server.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

/// The transport of a connection: TCP, or TLS over it.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// One persistent connection.
pub struct Connection<S = TcpStream> {
    stream: S,
    /// A line of all heads.
    header: String,
    buffer: Vec<u8>,
}

impl Connection {
    pub async fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("a connection");
        stream.set_nodelay(true).expect("no delay");
        Self::over(stream)
    }
}

impl<S: Stream> Connection<S> {
    pub fn over(stream: S) -> Self {
        Self {
            stream,
            header: String::new(),
            buffer: Vec::with_capacity(1024),
        }
    }

    /// Adds a line to all heads.
    pub fn with_header(self, header: &str) -> Self {
        Self {
            header: header.into(),
            ..self
        }
    }

    /// Posts a body. Returns the status.
    pub async fn post(&mut self, path: &str, body: &str) -> u16 {
        let (length, header) = (body.len(), &self.header);
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n{header}\r\n{body}"
        );
        self.ask(request.as_bytes()).await.expect("an answer")
    }

    /// Gets a path. Returns the status.
    pub async fn get(&mut self, path: &str) -> u16 {
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        self.ask(request.as_bytes()).await.expect("an answer")
    }

    /// Returns the body of the last answer.
    pub fn body(&self) -> &[u8] {
        let (head, length) = parse(&self.buffer).expect("an answer");
        &self.buffer[head..head + length]
    }

    /// Sends a whole request. Returns the status.
    pub async fn ask(&mut self, request: &[u8]) -> io::Result<u16> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        loop {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if let Some((head, length)) = parse(&self.buffer)
                && self.buffer.len() >= head + length
            {
                let status = std::str::from_utf8(&self.buffer[9..12]).ok();
                let status = status.and_then(|status| status.parse().ok());
                return status.ok_or_else(|| io::ErrorKind::InvalidData.into());
            }
        }
    }
}

/// Returns the lengths of head and body, once the head is complete.
fn parse(answer: &[u8]) -> Option<(usize, usize)> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&answer[..end]).ok()?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.trim().parse().ok())?
    });
    Some((end, length.unwrap_or(0)))
}
