//! Connections without a client library, for requests that no library sends.

use std::fmt::Debug;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

trait Stream: AsyncRead + AsyncWrite + Debug + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Debug + Send + Unpin> Stream for S {}

/// The address of a store, and how clients use TLS, if they do.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// The address.
    pub address: SocketAddr,
    /// The configuration of TLS.
    pub tls: Option<Arc<ClientConfig>>,
}

/// A connection.
#[derive(Debug)]
pub struct Wire(BufReader<Box<dyn Stream>>);

/// Connects from this address of this machine, `127.0.0.N`, without TLS.
///
/// # Errors
///
/// If there is no connection.
pub async fn tcp(store: &Endpoint, from: u8) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(([127, 0, 0, from], 0).into())?;
    // A client that reads nothing must not have the kernel read for it.
    socket.set_recv_buffer_size(16 * 1024)?;
    socket.connect(store.address).await
}

impl Wire {
    /// Connects from this address of this machine, `127.0.0.N`.
    ///
    /// # Errors
    ///
    /// If there is no connection.
    pub async fn connect(store: &Endpoint, from: u8) -> io::Result<Self> {
        let tcp = tcp(store, from).await?;
        let stream: Box<dyn Stream> = match &store.tls {
            Some(tls) => {
                let name = ServerName::try_from("127.0.0.1").map_err(io::Error::other)?;
                let tls = TlsConnector::from(Arc::clone(tls));
                Box::new(tls.connect(name, tcp).await?)
            }
            None => Box::new(tcp),
        };
        Ok(Self(BufReader::new(stream)))
    }

    /// Sends a request, and returns the status of the whole answer.
    ///
    /// # Errors
    ///
    /// If the connection breaks.
    pub async fn ask(
        &mut self,
        method: &str,
        path: &str,
        headers: &str,
        body: Option<&str>,
    ) -> io::Result<u16> {
        Ok(self.ask_for_body(method, path, headers, body).await?.0)
    }

    /// Sends a request, and returns the status and the body of the answer.
    ///
    /// # Errors
    ///
    /// If the connection breaks.
    pub async fn ask_for_body(
        &mut self,
        method: &str,
        path: &str,
        headers: &str,
        body: Option<&str>,
    ) -> io::Result<(u16, Vec<u8>)> {
        self.send(request(method, path, headers, body)).await?;
        self.answer().await
    }

    /// Sends these bytes.
    ///
    /// # Errors
    ///
    /// If the connection breaks.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]> + Send) -> io::Result<()> {
        self.0.write_all(bytes.as_ref()).await?;
        self.0.flush().await
    }

    /// Reads the head of an answer, and returns its status and the length of its body.
    ///
    /// # Errors
    ///
    /// If the connection breaks.
    pub async fn head(&mut self) -> io::Result<(u16, usize)> {
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

    /// Reads an answer.
    ///
    /// # Errors
    ///
    /// If the connection breaks.
    pub async fn answer(&mut self) -> io::Result<(u16, Vec<u8>)> {
        let (status, length) = self.head().await?;
        Ok((status, self.body(length).await?))
    }

    /// Reads the body of an answer.
    ///
    /// # Errors
    ///
    /// If the connection breaks.
    pub async fn body(&mut self, length: usize) -> io::Result<Vec<u8>> {
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).await?;
        Ok(body)
    }

    /// Takes a few bytes.
    ///
    /// # Errors
    ///
    /// If the connection breaks or ends.
    pub async fn take(&mut self) -> io::Result<()> {
        let mut bytes = [0; 64];
        match self.0.read(&mut bytes).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

/// Writes a request.
#[must_use]
pub fn request(method: &str, path: &str, headers: &str, body: Option<&str>) -> String {
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

/// Writes the header with this token.
#[must_use]
pub fn bearer(token: &str) -> String {
    format!("authorization: Bearer {token}\r\n")
}

/// Escapes a value of a query.
#[must_use]
pub fn percent(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'.' | b'_' => {
            char::from(byte).to_string()
        }
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}
