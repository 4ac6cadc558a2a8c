//! Tests of clients that keep connections without use: the store closes each connection after its
//! time limit, and leaders are not affected.

use super::*;

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::join_all;
use tenure_server::access::Access;
use tenure_server::{Server, Tls};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::net::tcp::OwnedWriteHalf;

/// The behaviour of a slow client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Silent,
    OneByte,
    HalfAHead,
    DrippedHead,
    DrippedBody,
    AnswersUnread,
    HandshakeUnfinished,
}

const SHAPES: [Shape; 7] = [
    Shape::Silent,
    Shape::OneByte,
    Shape::HalfAHead,
    Shape::DrippedHead,
    Shape::DrippedBody,
    Shape::AnswersUnread,
    Shape::HandshakeUnfinished,
];

const LEASES: &str = "/v1/namespaces/ns/leases";

/// Fills the store so that its answers are large, and a few requests fill all buffers: a test with
/// many requests would test a flood and not a slow client.
async fn fill(api: &Api) {
    for number in 1..=16 {
        let mut acquire = minute(number);
        acquire["duration_ms"] = json!(3_600_000);
        acquire["metadata"] = json!({"k": "x".repeat(4_000)});
        let filled = api
            .post(&format!("large-{number}"), "acquire", acquire)
            .await;
        assert_ok(&filled);
    }
}

/// One store with TLS, one without TLS, and one for the clients that read no answers. Clients that
/// read no answers are closed by the time limit of idle connections, which would hide the absence
/// of another limit in the first two stores.
struct Servers {
    plain: Running,
    tls: Running,
    unread: Running,
}

impl Servers {
    fn start(limits: &Limits, of_unread: Limits) -> Self {
        let open = |limits| Store::open(StoreConfig::memory().with_limits(limits)).unwrap();
        let bind = |store: &Store| {
            let server = Server::bind(store.clone(), "127.0.0.1:0".parse().unwrap());
            server.unwrap().with_access(Access::anonymous())
        };
        let store = open(limits.clone());
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let [certificate, key] = ["certificate", "key"].map(|name| folder.path().join(name));
        fs::write(&certificate, made.cert.pem()).unwrap();
        fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        let tls = Tls::open(certificate, key).unwrap();
        Self {
            plain: common::served(bind(&store)),
            tls: common::served(bind(&store).with_tls(tls)),
            unread: common::served(bind(&open(of_unread))),
        }
    }
}

fn address(running: &Running) -> SocketAddr {
    let origin = running.api.origin.strip_prefix("http://");
    origin.unwrap().parse().unwrap()
}

impl Shape {
    /// Returns the time after which the store closes such a connection.
    fn time(self, limits: &Limits) -> Duration {
        match self {
            Self::Silent | Self::OneByte | Self::HalfAHead | Self::DrippedHead => limits.head_time,
            Self::DrippedBody | Self::HandshakeUnfinished => limits.request_time,
            Self::AnswersUnread => limits.header_time.min(limits.request_time),
        }
    }

    /// Opens a connection, misbehaves, and returns the time until the store closes the connection.
    async fn misbehave(self, servers: &Servers) -> Duration {
        let socket = TcpSocket::new_v4().unwrap();
        if self == Self::AnswersUnread {
            socket.set_recv_buffer_size(4096).unwrap();
        }
        let address = match self {
            Self::HandshakeUnfinished => address(&servers.tls),
            Self::AnswersUnread => address(&servers.unread),
            _ => address(&servers.plain),
        };
        // The store may accept the connection before this client learns of it.
        let began = Instant::now();
        let stream = socket.connect(address).await.unwrap();
        let (mut read, mut write) = stream.into_split();
        let mut closed = std::pin::pin!(async {
            let mut bytes = [0; 1024];
            while read.read(&mut bytes).await.is_ok_and(|count| count > 0) {}
        });
        let begin = match self {
            Self::Silent => Vec::new(),
            Self::OneByte => b"G".to_vec(),
            Self::HalfAHead => b"GET /livez HTTP/1.1\r\nhost:".to_vec(),
            Self::DrippedHead => b"GET /livez HTTP/1.1\r\nx: ".to_vec(),
            Self::DrippedBody => head("POST", ACQUIRE, "content-length: 10000\r\n").into(),
            Self::HandshakeUnfinished => vec![0x16, 0x03, 0x01, 0x02],
            Self::AnswersUnread => head("GET", LEASES, "").into(),
        };
        write.write_all(&begin).await.unwrap();
        match self {
            Self::DrippedHead | Self::DrippedBody => tokio::select! {
                () = closed => {}
                () = repeat(&mut write, b" ", Duration::from_millis(200)) => {}
            },
            // The client reads nothing, so it learns of the end only when it sends.
            Self::AnswersUnread => repeat(&mut write, &begin, Duration::from_secs(2)).await,
            _ => (&mut closed).await,
        }
        began.elapsed()
    }
}

/// Sends until the connection is closed.
async fn repeat(write: &mut OwnedWriteHalf, bytes: &[u8], pause: Duration) {
    while write.write_all(bytes).await.is_ok() {
        sleep(pause).await;
    }
}

/// Holds a lease of five seconds, and checks that the lease is never lost.
async fn lead(api: &Api, number: u32, stop: &AtomicBool) {
    let lease = format!("leader-{number}");
    let mut acquire = minute(number);
    acquire["duration_ms"] = json!(5_000);
    let (status, granted) = api.post(&lease, "acquire", acquire).await;
    assert_eq!(status, 200, "{granted}");
    while !stop.load(Ordering::Relaxed) {
        sleep(Duration::from_secs(1)).await;
        let (status, renewed) = api.renew(&lease, number).await;
        assert_eq!(
            (status, &renewed["epoch"]),
            (200, &granted["epoch"]),
            "{renewed}"
        );
    }
}

/// Starts a hundred leaders on their own thread. Real leaders are other processes, so they must not
/// wait for the slow clients of this process.
fn lead_on_a_thread(origin: String, stop: Arc<AtomicBool>) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let http = reqwest::Client::builder().http1_only();
        let api = Api {
            origin,
            http: http.build().unwrap(),
        };
        let leaders = (1..=100).map(|number| lead(&api, number, &stop));
        runtime
            .enable_all()
            .build()
            .unwrap()
            .block_on(join_all(leaders));
    })
}

/// Lets this number of clients of each shape connect at the same time, while a hundred candidates
/// lead.
async fn misbehave_together(each: u32, limits: Limits, of_unread: Limits) {
    let servers = Arc::new(Servers::start(&limits, of_unread.clone()));
    fill(&servers.unread.api).await;
    let stop = Arc::new(AtomicBool::new(false));
    let leaders = lead_on_a_thread(servers.plain.api.origin.clone(), Arc::clone(&stop));
    let clients = SHAPES
        .into_iter()
        .flat_map(|shape| (0..each).map(move |_| shape));
    let clients = clients.map(|shape| {
        let servers = Arc::clone(&servers);
        tokio::spawn(async move { (shape, shape.misbehave(&servers).await) })
    });
    let times = join_all(clients).await.into_iter().map(Result::unwrap);
    let times: Vec<_> = times.collect();
    stop.store(true, Ordering::Relaxed);
    tokio::task::spawn_blocking(|| leaders.join())
        .await
        .unwrap()
        .expect("leaders that lost no lease");
    for shape in SHAPES {
        let times = times.iter().filter(|(of, _)| *of == shape);
        let times: Vec<_> = times.map(|(_, time)| *time).collect();
        let (least, most) = (times.iter().min().unwrap(), times.iter().max().unwrap());
        let limit = match shape {
            Shape::AnswersUnread => shape.time(&of_unread),
            _ => shape.time(&limits),
        };
        println!("{shape:?}: closed after {least:.1?} to {most:.1?}, the limit is {limit:?}");
        assert!(*least >= limit, "{shape:?}: {least:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_and_silent_clients_are_cut_off_and_cost_no_leader_its_lease() {
    let limits = Limits {
        head_time: Duration::from_secs(2),
        request_time: Duration::from_secs(2),
        ..Limits::default()
    };
    let of_unread = Limits {
        header_time: Duration::from_secs(3),
        // Each of them has an answer at once.
        max_answers: 1_000,
        ..Limits::default()
    };
    let together = misbehave_together(100, limits, of_unread);
    timeout(SOON * 6, together).await.expect("all are closed");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes, and needs 20,000 open files"]
async fn a_thousand_slow_clients_of_each_shape_cost_no_leader_its_lease() {
    misbehave_together(1_000, Limits::default(), Limits::default()).await;
}
