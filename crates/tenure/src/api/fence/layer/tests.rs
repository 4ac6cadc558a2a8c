use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// Counts its calls, and answers with the epoch under which it was admitted.
#[derive(Clone, Default)]
struct Inner(Arc<AtomicUsize>);

impl Service<Request<()>> for Inner {
    type Response = Response<Vec<u8>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<()>) -> Self::Future {
        self.0.fetch_add(1, Ordering::SeqCst);
        let admission = request.extensions().get::<Admission>();
        let epoch =
            admission.map_or_else(|| "none".into(), |admission| admission.epoch().to_string());
        ready(Ok(Response::new(epoch.into_bytes())))
    }
}

struct World {
    fence: Fence<Inner>,
    calls: Arc<AtomicUsize>,
}

impl World {
    fn new(layer: &FenceLayer) -> Self {
        let inner = Inner::default();
        let calls = inner.0.clone();
        Self {
            fence: layer.layer(inner),
            calls,
        }
    }

    /// Sends a request. Returns the text of an admitted request's answer, or the problem.
    async fn send(&mut self, headers: &[(&str, &str)]) -> Result<String, Problem> {
        let mut request = Request::builder();
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let before = self.calls.load(Ordering::SeqCst);
        let Ok(response) = self.fence.call(request.body(()).unwrap()).await;
        let called = self.calls.load(Ordering::SeqCst) - before;
        if response.status() == StatusCode::OK {
            assert_eq!(called, 1);
            return Ok(String::from_utf8(response.into_body()).unwrap());
        }
        assert_eq!(called, 0, "a refused request does not reach the service");
        assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
        let problem: Problem = serde_json::from_slice(response.body()).unwrap();
        assert_eq!(problem.status, response.status().as_u16());
        Err(problem)
    }

    async fn malformed(&mut self, headers: &[(&str, &str)]) -> String {
        let problem = self.send(headers).await.unwrap_err();
        assert_eq!((problem.status, problem.code), (400, Code::Malformed));
        problem.detail
    }
}

fn epoch(number: u64) -> Epoch {
    Epoch::new(number).unwrap()
}

#[tokio::test]
async fn a_stale_request_does_not_reach_the_service() {
    let gate = Arc::new(Gate::starting_at(epoch(5)));
    let mut world = World::new(&FenceLayer::new(gate.clone()));
    for passes in ["5", "7", "7", "9"] {
        let answer = world.send(&[(EPOCH_HEADER, passes)]).await;
        assert_eq!(answer.as_deref(), Ok(passes));
    }
    let problem = world.send(&[(EPOCH_HEADER, "8")]).await.unwrap_err();
    assert_eq!((problem.status, problem.code), (409, Code::StaleEpoch));
    assert_eq!(problem.epoch, Some(9));
    assert_eq!(problem.detail, "epoch 8 is stale: epoch 9 was seen");
    assert_eq!(gate.current(), epoch(9));
}

#[tokio::test]
async fn a_malformed_epoch_is_refused_and_does_not_raise_the_gate() {
    let gate = Arc::new(Gate::new());
    let mut world = World::new(&FenceLayer::new(gate.clone()));
    let too_large = (Epoch::MAX.get() + 1).to_string();
    for bad in [
        "",
        "+7",
        "-7",
        " 7 8",
        "7.0",
        "0x7",
        "1e3",
        "seven",
        "7,8",
        &too_large,
        &"9".repeat(99),
    ] {
        let detail = world.malformed(&[(EPOCH_HEADER, bad)]).await;
        assert!(detail.contains("0 to 9007199254740991"), "{detail}");
    }
    let detail = world
        .malformed(&[(EPOCH_HEADER, "7"), (EPOCH_HEADER, "8")])
        .await;
    assert!(detail.contains("twice"), "{detail}");
    assert_eq!(gate.current(), epoch(0));
    let most = Epoch::MAX.to_string();
    assert_eq!(world.send(&[(EPOCH_HEADER, &most)]).await, Ok(most));
}

#[tokio::test]
async fn an_unmarked_request_is_refused_unless_it_is_allowed() {
    let layer = FenceLayer::new(Gate::starting_at(epoch(5)));
    let detail = World::new(&layer).malformed(&[]).await;
    assert!(detail.contains(EPOCH_HEADER), "{detail}");

    let mut lenient = World::new(&layer.with_unmarked(Unmarked::Allow));
    assert_eq!(lenient.send(&[]).await.as_deref(), Ok("none"));
    // A request with an epoch is still fenced.
    let problem = lenient.send(&[(EPOCH_HEADER, "4")]).await.unwrap_err();
    assert_eq!(problem.code, Code::StaleEpoch);
    lenient.malformed(&[(EPOCH_HEADER, "four")]).await;
}

#[tokio::test]
async fn each_election_has_a_gate_of_its_own() {
    let gates = [("billing/nightly", 5), ("rollup", 50)].map(|(name, start)| {
        let gate = Arc::new(Gate::starting_at(epoch(start)));
        (name.parse::<ElectionName>().unwrap(), gate)
    });
    let mut world = World::new(&FenceLayer::by_election(gates.clone()));
    let marked = |election, epoch| [(ELECTION_HEADER, election), (EPOCH_HEADER, epoch)];

    assert!(world.send(&marked("billing/nightly", "7")).await.is_ok());
    let problem = world
        .send(&marked("default/rollup", "7"))
        .await
        .unwrap_err();
    assert_eq!((problem.code, problem.epoch), (Code::StaleEpoch, Some(50)));
    assert!(world.send(&marked("rollup", "51")).await.is_ok());
    assert_eq!(gates.map(|(_, gate)| gate.current().get()), [7, 51]);

    world.malformed(&[(EPOCH_HEADER, "99")]).await;
    let detail = world.malformed(&marked("billing/weekly", "99")).await;
    assert!(detail.contains("billing/weekly"), "{detail}");
    world.malformed(&marked("no name", "99")).await;
    let twice = [
        (ELECTION_HEADER, "rollup"),
        (ELECTION_HEADER, "rollup"),
        (EPOCH_HEADER, "99"),
    ];
    world.malformed(&twice).await;
}

#[test]
fn an_admission_that_was_overtaken_is_stale() {
    let gate = Arc::new(Gate::new());
    let layer = FenceLayer::new(gate.clone());
    let mut headers = HeaderMap::new();
    headers.insert(EPOCH_HEADER, HeaderValue::from_static("7"));
    let admission = layer.admit(&headers).unwrap().unwrap();
    assert_eq!(admission.check(), Ok(epoch(7)));
    gate.admit(epoch(9)).unwrap();
    let (refused, current) = (epoch(7), epoch(9));
    assert_eq!(admission.check(), Err(Stale { refused, current }));
}
