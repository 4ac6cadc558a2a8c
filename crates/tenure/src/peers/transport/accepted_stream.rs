//! Connections that a listener has accepted.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// The size of each of the buffers that the kernel has for a connection. It keeps about twice as
/// much, and without a limit several megabytes, for a client that takes nothing.
const KERNEL_BUFFER: usize = 64 * 1024;

/// The time for which the kernel keeps bytes that the client does not take.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "fuchsia"))]
const TAKE_TIME: Duration = Duration::from_secs(10);

/// A connection whose client may take no answers: the kernel keeps few bytes for it, and forgets
/// them when the connection is dropped while the client takes nothing.
#[derive(Debug)]
pub struct AcceptedStream {
    tcp: TcpStream,
    /// Whether the client did not take the last bytes.
    is_full: bool,
}

impl AcceptedStream {
    /// Limits what the kernel keeps for a connection that was accepted just now.
    #[must_use]
    pub fn new(tcp: TcpStream) -> Self {
        let socket = SockRef::from(&tcp);
        // A connection without one of these options is served all the same. Without the first one,
        // an answer may wait for more data.
        let _ = socket.set_tcp_nodelay(true);
        let _ = socket.set_send_buffer_size(KERNEL_BUFFER);
        let _ = socket.set_recv_buffer_size(KERNEL_BUFFER);
        #[cfg(any(target_os = "linux", target_os = "android", target_os = "fuchsia"))]
        let _ = socket.set_tcp_user_timeout(Some(TAKE_TIME));
        let is_full = false;
        Self { tcp, is_full }
    }

    fn noting(&mut self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        self.is_full = written.is_pending();
        written
    }
}

impl Drop for AcceptedStream {
    fn drop(&mut self) {
        if self.is_full {
            let _ = SockRef::from(&self.tcp).set_linger(Some(Duration::ZERO));
        }
    }
}

impl AsyncRead for AcceptedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_read(context, buffer)
    }
}

impl AsyncWrite for AcceptedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.tcp).poll_write(context, bytes);
        self.noting(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.tcp).poll_write_vectored(context, slices);
        self.noting(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpSocket};

    /// Returns the two ends of a connection whose client has room for few bytes.
    async fn connected() -> (AcceptedStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let client = socket.connect(listener.local_addr().unwrap());
        let (accepted, client) = tokio::join!(listener.accept(), client);
        (AcceptedStream::new(accepted.unwrap().0), client.unwrap())
    }

    #[tokio::test]
    async fn the_kernel_keeps_few_bytes_and_forgets_them_when_the_connection_is_dropped() {
        let (mut accepted, mut client) = connected().await;
        let mut sent = 0;
        let write = async {
            loop {
                sent += accepted.write(&[7; 16 * 1024]).await.unwrap();
            }
        };
        let full = tokio::time::timeout(Duration::from_millis(500), write).await;
        assert!(full.is_err() && sent < 4 * KERNEL_BUFFER, "{sent}");
        drop(accepted);
        let mut rest = Vec::new();
        let end = client.read_to_end(&mut rest).await.unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::ConnectionReset);
        assert!(rest.len() < 16 * 1024, "{}", rest.len());
    }

    #[tokio::test]
    async fn a_client_that_takes_its_answer_late_gets_all_of_it() {
        let (mut accepted, mut client) = connected().await;
        accepted.write_all(&[7; 32 * 1024]).await.unwrap();
        drop(accepted);
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.unwrap();
        assert_eq!(answer.len(), 32 * 1024);
    }
}
