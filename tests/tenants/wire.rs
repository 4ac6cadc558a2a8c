//! Connections without a client library, for requests that no library sends.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::rustls::pki_types::ServerName;

use crate::store::Store;

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

pub(crate) struct Wire(BufReader<Box<dyn Stream>>);

/// Connects from this address of this machine, `127.0.0.N`, without TLS.
pub(crate) async fn tcp(store: &Store, from: u8) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(([127, 0, 0, from], 0).into())?;
    // A client that reads nothing must not have the kernel read for it.
    socket.set_recv_buffer_size(16 * 1024)?;
    socket.connect(store.address()).await
}

impl Wire {
    pub(crate) async fn connect(store: &Arc<Store>, from: u8) -> io::Result<Self> {
        let tcp = tcp(store, from).await?;
        let stream: Box<dyn Stream> = match &store.tls {
            Some(tls) => {
                let name = ServerName::try_from("127.0.0.1").map_err(io::Error::other)?;
                Box::new(tls.connect(name, tcp).await?)
            }
            None => Box::new(tcp),
        };
        Ok(Self(BufReader::new(stream)))
    }

    /// Sends a request, and returns the status of the whole answer.
    pub(crate) async fn ask(
        &mut self,
        method: &str,
        path: &str,
        headers: &str,
        body: Option<&str>,
    ) -> io::Result<u16> {
        Ok(self.ask_for_body(method, path, headers, body).await?.0)
    }

    /// Sends a request, and returns the status and the body of the answer.
    pub(crate) async fn ask_for_body(
        &mut self,
        method: &str,
        path: &str,
        headers: &str,
        body: Option<&str>,
    ) -> io::Result<(u16, Vec<u8>)> {
        self.send(request(method, path, headers, body)).await?;
        self.answer().await
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]> + Send) -> io::Result<()> {
        self.0.write_all(bytes.as_ref()).await?;
        self.0.flush().await
    }

    /// Reads the head of an answer, and returns its status and the length of its body.
    pub(crate) async fn head(&mut self) -> io::Result<(u16, usize)> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.0.read_line(&mut head).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let wrong = || io::Error::other("not an answer");
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("content-length")
                .then(|| value.parse().ok())?
        });
        Ok((status.ok_or_else(wrong)?, length.unwrap_or(0)))
    }

    pub(crate) async fn answer(&mut self) -> io::Result<(u16, Vec<u8>)> {
        let (status, length) = self.head().await?;
        Ok((status, self.body(length).await?))
    }

    /// Reads the body of an answer.
    pub(crate) async fn body(&mut self, length: usize) -> io::Result<Vec<u8>> {
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).await?;
        Ok(body)
    }

    /// Takes a few bytes; fails at the end.
    pub(crate) async fn take(&mut self) -> io::Result<()> {
        let mut bytes = [0; 64];
        match self.0.read(&mut bytes).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

/// Writes a request.
pub(crate) fn request(method: &str, path: &str, headers: &str, body: Option<&str>) -> String {
    let body = match body {
        Some(body) => format!(
            "content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ),
        None if method == "PUT" => "content-length: 0\r\n\r\n".into(),
        None => "\r\n".into(),
    };
    format!(
        "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nx-ms-version: 2021-12-02\r\n{headers}{body}"
    )
}

/// Escapes a value of a query.
pub(crate) fn percent(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'.' | b'_' => {
            char::from(byte).to_string()
        }
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}
