//! Requests to the JSON gateways of etcd's members.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::Client;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE};
use reqwest::redirect::Policy;
use serde_json::{Value, json};
use tracing::{info, warn};

use super::refusal::{Refusal, meaning};
use super::upkeep::Upkeep;
use super::version::Version;
use super::{EtcdAccess, EtcdHome};
use crate::tls::{self, Tls, TlsCheck, TlsNames};
use crate::{Failure, HomeUrl, Identity, causes, lock, note_warning};

/// The time in which a refused password is not sent again. etcd needs much processor time to check
/// a password.
const PASSWORD_PAUSE: Duration = Duration::from_secs(3);

const AUTHENTICATE: &str = "/v3/auth/authenticate";

/// The names in messages about certificates.
const TLS: TlsNames = TlsNames {
    service: "etcd",
    authorities: "ca_file",
    client: ["certificate", "key"],
    client_authorities: "--trusted-ca-file of etcd",
};

/// What is known about the members. One is used at a time; another one after a failure.
pub(super) struct State {
    members: Vec<Member>,
    /// The index of the member that is used.
    current: usize,
    /// The cluster that gave the last answer.
    pub(super) identity: Option<Identity>,
    /// Whether the last replace failed. It may have been applied, and the next attempt may reach a member
    /// that was restored meanwhile.
    pub(super) has_failed: bool,
    client: Client,
    login: Login,
    /// The last version that was read, of any member.
    pub(super) version: Option<Arc<str>>,
    /// The last revision that an answer contained.
    pub(super) revision: u64,
    pub(super) upkeep: Upkeep,
}

#[derive(Clone, Default)]
struct Member {
    /// Whether its version was checked since it was last unreachable.
    is_checked: bool,
    /// Whether its last connection ended before an answer.
    was_cut: bool,
    /// The known errors of its version.
    warning: Option<String>,
}

/// The state of the authentication.
enum Login {
    /// The user must be authenticated.
    Needed,
    Token(String),
    /// etcd has no authentication.
    Open,
    /// The password was refused until this time.
    Refused(Failure, Instant),
}

/// An answer of etcd. Bytes in it are in base64, and 64-bit integers are strings.
#[derive(Debug)]
pub(super) struct Answer {
    /// The cluster that gave it.
    pub(super) identity: Identity,
    pub(super) body: Value,
}

impl Answer {
    fn parse(body: &[u8]) -> Option<Self> {
        let body: Value = serde_json::from_slice(body).ok()?;
        let cluster = body["header"]["cluster_id"].as_str()?;
        let identity = Identity::new(format!("cluster id {cluster}"));
        Some(Self { identity, body })
    }

    /// Returns the revision of the cluster. It is that of a transaction which has changed a key.
    pub(super) fn revision(&self) -> &str {
        text(&self.body["header"]["revision"])
    }
}

/// Returns a text of an answer; empty if it is missing.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

impl State {
    /// # Errors
    ///
    /// [`Failure::Misconfigured`] if the access is wrong.
    pub(super) fn new(access: &EtcdAccess, attempt: Duration) -> Result<Self, Failure> {
        let urls = &access.endpoints;
        if urls.is_empty() || !urls.iter().all(|url| url.starts_with("http")) {
            let text = format!("home must name members of etcd, and names {urls:?}");
            return Err(Failure::Misconfigured(text));
        }
        if access.user.is_some() != access.password_file.is_some() {
            let text = "password_file and a user in home must be set together";
            return Err(Failure::Misconfigured(text.into()));
        }
        Ok(Self {
            members: vec![Member::default(); urls.len()],
            current: 0,
            identity: None,
            has_failed: false,
            client: client(access, attempt)?,
            login: Login::Needed,
            version: None,
            revision: 0,
            upkeep: Upkeep::default(),
        })
    }

    /// Returns the known errors of the versions, and the problem of the compaction.
    pub(super) fn warnings(&self) -> impl Iterator<Item = &String> {
        let members = self.members.iter().map(|member| &member.warning);
        members.chain([&self.upkeep.warning]).flatten()
    }

    /// Checks the version of the current member again before the next request.
    pub(super) fn check_version_again(&mut self) {
        self.members[self.current].is_checked = false;
    }

    fn note_answer(&mut self, at: usize, answer: &Answer) {
        self.members[at].was_cut = false;
        self.identity = Some(answer.identity.clone());
        let revision = answer.revision().parse().unwrap_or_default();
        self.revision = self.revision.max(revision);
    }

    /// Chooses the member for the next request, after this one has refused or failed.
    fn note_refusal(&mut self, at: usize, refusal: &Refusal) {
        let member = &mut self.members[at];
        let stays = match refusal {
            Refusal::Refused(_) => true,
            // One lost answer says little about the member, and a search for a better one would
            // meet the same fault at each of them.
            Refusal::Cut(_) => {
                member.was_cut = !member.was_cut;
                member.was_cut
            }
            _ => false,
        };
        // Another request may have left it before.
        if !stays && self.current == at {
            self.current = (at + 1) % self.members.len();
        }
    }
}

impl EtcdHome {
    /// Sends a request to the current member. If that member can't be used and has definitely not
    /// applied the request, the next members are asked within the time of the attempt.
    ///
    /// Only these may take longer: the check of the version, up to one attempt more; and
    /// authentication, up to three attempts, because etcd needs some 100 ms for it.
    pub(super) async fn ask(&self, path: &str, request: &Value) -> Result<Answer, Failure> {
        let body = Bytes::from(request.to_string());
        let mut until = Instant::now() + self.attempt;
        let mut refused = None;
        for _ in 0..self.access.endpoints.len() {
            let at = lock(&self.state).current;
            let asked = async {
                self.check_version(at, &mut until).await?;
                self.authenticate(at, &mut until).await?;
                let answer = self.post(at, path, body.clone(), until).await;
                if !matches!(answer, Err(Refusal::Token(_))) {
                    return answer;
                }
                lock(&self.state).login = Login::Needed;
                self.authenticate(at, &mut until).await?;
                self.post(at, path, body.clone(), until).await
            };
            let refusal = match asked.await {
                Ok(answer) => {
                    lock(&self.state).note_answer(at, &answer);
                    return Ok(answer);
                }
                Err(refusal) => refusal,
            };
            lock(&self.state).note_refusal(at, &refusal);
            match refusal {
                Refusal::Refused(failure) => return Err(failure),
                Refusal::Unknown(text) | Refusal::Cut(text) => return Err(Failure::Unknown(text)),
                // A new token was refused, too.
                Refusal::Token(text) => return Err(Failure::NotApplied(text)),
                // A mistake of the operator says more than a member that is down.
                Refusal::Member(_) if matches!(refused, Some(Failure::Misconfigured(_))) => {}
                Refusal::Member(failure) => refused = Some(failure),
            }
            if Instant::now() >= until {
                break;
            }
        }
        Err(refused.unwrap_or_else(|| Failure::Unknown("no member of etcd was asked".into())))
    }

    /// Reads etcd's metrics from the current member.
    pub(super) async fn metrics(&self) -> Option<String> {
        let at = lock(&self.state).current;
        let until = Instant::now() + self.attempt;
        let (status, body) = self.send(at, "/metrics", until, None).await.ok()?;
        (status == 200).then(|| String::from_utf8_lossy(&body).into_owned())
    }

    /// Checks the version of a member, if that is due. The time for it does not count: the end of the
    /// attempt moves to a later time, or a member that takes more than half an attempt for each answer
    /// could never be used again after one that came too late.
    async fn check_version(&self, at: usize, until: &mut Instant) -> Result<(), Refusal> {
        if lock(&self.state).members[at].is_checked {
            return Ok(());
        }
        let began = Instant::now();
        let (_, body) = self.send(at, "/version", *until, None).await?;
        *until += began.elapsed();
        let mut state = lock(&self.state);
        // A proxy may hide the version.
        if let Some(version) = Version::read(&body) {
            state.version = Some(version.to_string().into());
            let warning = version.check(&self.access.endpoints[at]);
            let warning = warning.map_err(|text| Refusal::Member(Failure::Misconfigured(text)))?;
            note_warning(&mut state.members[at].warning, warning);
        }
        state.members[at].is_checked = true;
        Ok(())
    }

    /// Gets a token, if one is needed. The time for it does not count: the end of the attempt moves
    /// to a later time.
    async fn authenticate(&self, at: usize, until: &mut Instant) -> Result<(), Refusal> {
        let (Some(user), Some(file)) = (&self.access.user, &self.access.password_file) else {
            return Ok(());
        };
        let now = Instant::now();
        match &lock(&self.state).login {
            Login::Token(_) | Login::Open => return Ok(()),
            Login::Refused(failure, until) if now < *until => {
                return Err(Refusal::Refused(failure.clone()));
            }
            Login::Refused(..) | Login::Needed => {}
        }
        let password = tls::read("password_file", file, |text| {
            Ok(String::from_utf8_lossy(text).into_owned())
        });
        let password = password.map_err(|text| Refusal::Refused(Failure::Misconfigured(text)))?;
        let password = password.trim_end_matches(['\r', '\n']);
        let of_url = HomeUrl::parse(password).ok();
        let of_url = of_url.filter(|url| url.scheme.starts_with("etcd"));
        let of_url = of_url.and_then(|url| url.password);
        let request = json!({"name": user, "password": of_url.as_deref().unwrap_or(password)});
        let body = request.to_string().into();
        let answer = self
            .post(at, AUTHENTICATE, body, now + 3 * self.attempt)
            .await;
        *until += now.elapsed();
        let (login, outcome) = match answer {
            Ok(answer) => (Login::Token(text(&answer.body["token"]).into()), Ok(())),
            Err(Refusal::Refused(Failure::NotApplied(_))) => {
                info!("etcd has no authentication, so the user in home is not used");
                (Login::Open, Ok(()))
            }
            Err(Refusal::Refused(failure)) => {
                let until = Instant::now() + PASSWORD_PAUSE;
                let refusal = Refusal::Refused(failure.clone());
                (Login::Refused(failure, until), Err(refusal))
            }
            Err(refusal) => return Err(refusal),
        };
        lock(&self.state).login = login;
        outcome
    }

    async fn post(
        &self,
        at: usize,
        path: &str,
        body: Bytes,
        until: Instant,
    ) -> Result<Answer, Refusal> {
        let bytes = body.len();
        let (status, answer) = self.send(at, path, until, Some(body)).await?;
        let url = &self.access.endpoints[at];
        if status != 200 {
            return Err(meaning(&self.access, url, path, bytes, status, &answer));
        }
        Answer::parse(&answer)
            .ok_or_else(|| Refusal::Unknown(format!("the answer of {url}{path} is not etcd's")))
    }

    /// Sends a request to a member, which is read without a body. Returns the status and the body of the
    /// answer.
    async fn send(
        &self,
        at: usize,
        path: &str,
        until: Instant,
        body: Option<Bytes>,
    ) -> Result<(u16, Bytes), Refusal> {
        let url = &self.access.endpoints[at];
        let request = {
            let State { client, login, .. } = &*lock(&self.state);
            let target = format!("{url}{path}");
            match (body, login) {
                (None, _) => client.get(target),
                (Some(body), Login::Token(token)) if path != AUTHENTICATE => {
                    client.post(target).header(AUTHORIZATION, token).body(body)
                }
                (Some(body), _) => client.post(target).body(body),
            }
        };
        let left = until.saturating_duration_since(Instant::now());
        let request = request
            .header(CONTENT_TYPE, "application/json")
            .timeout(left);
        let sent = async {
            let answer = request.send().await?;
            Ok((answer.status().as_u16(), answer.bytes().await?))
        };
        let error: reqwest::Error = match sent.await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        // It may come back with another version. After a lost answer it is not checked: each attempt
        // would need two answers.
        lock(&self.state).members[at].is_checked &= !error.is_connect();
        // A certificate may have expired, and there are new files.
        if uses_tls(&self.access) {
            match client(&self.access, self.attempt) {
                Ok(client) => lock(&self.state).client = client,
                Err(error) => warn!(%error, "can't read the certificates for etcd again"),
            }
        }
        let reason = TLS.explain(&error, self.access.certificate.is_some());
        if let Some(reason) = reason {
            let text = format!("etcd at {url}: {reason}");
            return Err(Refusal::Member(Failure::Misconfigured(text)));
        }
        let text = format!("etcd at {url}: {}", innermost_cause(&error));
        Err(match (error.is_connect(), error.is_timeout()) {
            // Without a connection nothing was sent.
            (true, _) => Refusal::Member(Failure::Unknown(text)),
            (false, true) => Refusal::Unknown(text),
            (false, false) => Refusal::Cut(text),
        })
    }
}

/// Makes an HTTP client. `attempt` is the time of one request.
fn client(access: &EtcdAccess, attempt: Duration) -> Result<Client, Failure> {
    let builder = Client::builder()
        .user_agent(concat!("tenure/", env!("CARGO_PKG_VERSION")))
        // With HTTP/1.1, a request that times out closes its connection. An HTTP/2 connection
        // that failed silently would stay in use, and every later append would fail.
        .http1_only()
        .no_proxy()
        .redirect(Policy::none())
        // The caller must know each attempt.
        .retry(reqwest::retry::never())
        // The rest of the time is for another member.
        .connect_timeout(attempt / 2);
    let tls = Tls {
        names: &TLS,
        authorities: access.ca_file.clone(),
        certificate: access.certificate.clone(),
        key: access.key.clone(),
        check: TlsCheck::Host,
    };
    let builder = match uses_tls(access) {
        true => builder.tls_backend_preconfigured(tls.config().map_err(Failure::Misconfigured)?),
        // Plain http must work on a system without certificates of authorities.
        false => builder.tls_certs_only([]),
    };
    builder.build().map_err(|error| {
        let cause = innermost_cause(&error);
        Failure::Misconfigured(format!("can't set up the HTTP client for etcd: {cause}"))
    })
}

fn uses_tls(access: &EtcdAccess) -> bool {
    let files = [&access.ca_file, &access.certificate, &access.key];
    let mut urls = access.endpoints.iter();
    files.iter().any(|file| file.is_some()) || urls.any(|url| url.starts_with("https:"))
}

/// Returns the cause that says most, and what to do about it if that is known.
fn innermost_cause(error: &reqwest::Error) -> String {
    let cause = causes(error).last().map(ToString::to_string);
    match cause.unwrap_or_default() {
        _ if error.is_timeout() => "no answer in time".into(),
        cause if cause.contains("InvalidContentType") => {
            cause + ": it does not use TLS, write etcd:// in home"
        }
        cause => cause,
    }
}
