//! Measurements. They print numbers and assert nothing about them, so they run only on request: see
//! `docs/testing.md`.

use super::*;

/// Measures the time of a refusal. The lease is looked up after the right is checked (`Gate::pass`
/// before the handler, and `FastRequest::execute` before the store), so the time can't depend on
/// the lease.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn the_time_of_a_refusal_for_a_present_and_a_missing_lease() {
    const ROUNDS: usize = 10_000;
    let guarded = Guarded::start(&[
        ("owner", &grant("candidate", "a", "")),
        ("other", &grant("candidate", "b", "")),
    ]);
    let path = format!("{LEASE}/acquire");
    let acquired = guarded
        .post("owner", &path, body_of("acquire", &id(1)))
        .await;
    assert_eq!(acquired.0, 200);
    for (method, verb) in [("GET", ""), ("POST", "/renew"), ("POST", "/acquire")] {
        let mut wire = Wire::connect(&guarded.running.api).await;
        let body = body_of(verb.trim_start_matches('/'), &id(1)).to_string();
        let more = match method {
            "GET" => guarded.header("other"),
            _ => format!(
                "content-length: {}\r\n{}",
                body.len(),
                guarded.header("other")
            ),
        };
        let mut micros = [Vec::new(), Vec::new()];
        for round in 0..2 * ROUNDS {
            // Both names have the same length.
            let lease = ["job", "jab"][round % 2];
            let path = format!("/v1/namespaces/a/leases/{lease}{verb}");
            let mut request = common::wire::head(method, &path, &more);
            if method == "POST" {
                request.push_str(&body);
            }
            let began = Instant::now();
            wire.send(request).await.unwrap();
            let reply = wire.reply().await.unwrap();
            micros[round % 2].push(began.elapsed().as_secs_f64() * 1e6);
            assert_eq!(reply.answer.0, 403);
        }
        let [present, missing] = micros.map(|mut micros| {
            micros.sort_by(f64::total_cmp);
            micros[ROUNDS / 2]
        });
        let difference = (present / missing - 1.0) * 100.0;
        println!(
            "{method} {verb}: present {present:.1} us, missing {missing:.1} us, {difference:+.1} %"
        );
    }
}

/// Returns the processor time of this process's threads with this name.
fn cpu_of_threads(name: &str) -> Duration {
    let mut nanos = 0;
    for task in fs::read_dir("/proc/self/task").unwrap() {
        let path = task.unwrap().path();
        let read = |file| fs::read_to_string(path.join(file)).unwrap_or_default();
        if read("comm").trim() == name {
            let first = read("schedstat");
            let first = first.split_whitespace().next();
            nanos += first.map_or(0, |first| first.parse::<u64>().unwrap());
        }
    }
    Duration::from_nanos(nanos)
}

#[test]
#[ignore = "a measurement"]
fn the_processor_time_of_wrong_credentials() {
    const REQUESTS: u32 = 10_000;
    let threads = |name: &str| {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).thread_name(name).enable_all();
        runtime.build().unwrap()
    };
    let (server, client) = (threads("store"), threads("clients"));
    let guarded = server.block_on(async { Guarded::start(&[("a", &grant("read", "a", ""))]) });
    let (other, wrong) = (Signer::new(), Secret::generate());
    let jwts: Vec<String> = (0..REQUESTS)
        .map(|number| other.sign("one", &claims(&number.to_string())))
        .collect();
    let tokens = vec![wrong.reveal().to_owned(); REQUESTS as usize];
    let same = vec![jwts[0].clone(); REQUESTS as usize];
    // The first round is a warm-up.
    for _ in 0..3 {
        for (kind, credentials) in [("tokens", &tokens), ("one JWT", &same), ("JWTs", &jwts)] {
            let before = cpu_of_threads("store");
            client.block_on(async {
                let mut wire = Wire::connect(&guarded.running.api).await;
                for credential in credentials {
                    let more = format!("authorization: Bearer {credential}\r\n");
                    let head = common::wire::head("GET", "/v1/limits", &more);
                    wire.send(head).await.unwrap();
                    let status = wire.reply().await.unwrap().answer.0;
                    assert!(matches!(status, 401 | 429), "{status}");
                }
            });
            let micros = (cpu_of_threads("store") - before).as_secs_f64() * 1e6;
            println!(
                "{kind}: {:.1} us of processor time each",
                micros / f64::from(REQUESTS)
            );
        }
    }
}
