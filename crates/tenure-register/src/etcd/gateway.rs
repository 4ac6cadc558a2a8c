//! Requests to the JSON gateways of etcd's members.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE};
use reqwest::{Client, RequestBuilder};
use tracing::{info, warn};

use super::EtcdAccess;
use super::http::{self, Certificates, innermost_cause, misconfigured};
use super::refusal::{Asked, Refusal, meaning};
use super::version::{Verdict, Version};
use super::wire::{AuthenticateRequest, GatewayRequest};
use crate::{Failure, HomeUrl};

/// The time in which a refused password is not sent again. etcd needs much processor time to check
/// a password.
const PASSWORD_PAUSE: Duration = Duration::from_secs(3);

/// The members of an etcd cluster. One is used at a time; another one after a failure.
#[derive(Debug)]
pub(super) struct Gateway {
    config: EtcdAccess,
    /// The limit of one request.
    attempt: Duration,
    members: Vec<Member>,
    /// The index of the member that is used.
    current: usize,
    certificates: Certificates,
    client: Client,
    user: Option<User>,
    /// The date of the last answer.
    date: Option<SystemTime>,
    versions: Versions,
}

/// What all connections of a home know about the versions of members.
pub(super) type Versions = Arc<Mutex<KnownVersions>>;

#[derive(Debug, Default)]
pub(super) struct KnownVersions {
    /// The last version that was read, of any member.
    pub(super) last: Option<Arc<str>>,
    /// The known errors of the versions, by the URLs of the members.
    pub(super) warnings: BTreeMap<String, String>,
}

#[derive(Debug)]
struct Member {
    url: String,
    /// Whether its version was checked since it was last unreachable.
    is_checked: bool,
    /// Whether its last connection ended before an answer.
    was_cut: bool,
}

#[derive(Debug)]
struct User {
    name: String,
    password_file: PathBuf,
    access: Access,
}

/// The state of the authentication.
enum Access {
    /// The user must be authenticated.
    Needed,
    Token(String),
    /// etcd has no authentication.
    Open,
    /// The password was refused until this time.
    Refused(Failure, Instant),
}

impl Gateway {
    /// Creates a connection. It sends nothing.
    ///
    /// # Errors
    ///
    /// [`Failure::Misconfigured`] if the configuration is wrong.
    pub(super) fn open(
        config: &EtcdAccess,
        attempt: Duration,
        versions: Versions,
    ) -> Result<Self, Failure> {
        let members = config.endpoints.iter().map(|url| Member {
            url: url.clone(),
            is_checked: false,
            was_cut: false,
        });
        let members: Vec<Member> = members.collect();
        let is_url = |member: &Member| member.url.starts_with("http");
        if members.is_empty() || !members.iter().all(is_url) {
            let names = &config.endpoints;
            let text = format!("home must name members of etcd, and names {names:?}");
            return Err(misconfigured(&text));
        }
        let user = match (&config.user, &config.password_file) {
            (Some(name), Some(password_file)) => Some(User {
                name: name.clone(),
                password_file: password_file.clone(),
                access: Access::Needed,
            }),
            (None, None) => None,
            (Some(_), None) => return Err(misconfigured("a user requires password_file")),
            (None, Some(_)) => return Err(misconfigured("password_file requires a user in home")),
        };
        let certificates = Certificates::read(config)?;
        let client = certificates.client(uses_tls(&members), attempt)?;
        Ok(Self {
            config: config.clone(),
            attempt,
            members,
            current: 0,
            certificates,
            client,
            user,
            date: None,
            versions,
        })
    }

    /// Sends a request to the current member. If that member can't be used and has definitely not
    /// applied the request, the next members are asked within the time of the attempt.
    ///
    /// Only these may take longer: the check of the version, up to one attempt more; and
    /// authentication, up to three attempts, because etcd needs some 100 ms for it.
    pub(super) async fn ask<R: GatewayRequest>(
        &mut self,
        request: &R,
    ) -> Result<R::Answer, Failure> {
        let body = serde_json::to_vec(request).map_err(|error| unknown(error.to_string()))?;
        let body = Bytes::from(body);
        let mut until = Instant::now() + self.attempt;
        let mut refused = None;
        for _ in 0..self.members.len() {
            let failure = match self.ask_member::<R>(&body, &mut until).await {
                Ok(answer) => {
                    self.members[self.current].was_cut = false;
                    return Ok(answer);
                }
                Err(failure) => failure,
            };
            match failure {
                Refusal::Refused(error) => return Err(error),
                Refusal::Unknown(message) => {
                    self.use_next_member();
                    return Err(unknown(message));
                }
                // One lost answer says little about the member, and a search for a better one would
                // meet the same fault at each of them.
                Refusal::Cut(message) => {
                    let member = &mut self.members[self.current];
                    member.was_cut = !member.was_cut;
                    if !member.was_cut {
                        self.use_next_member();
                    }
                    return Err(unknown(message));
                }
                // A new token was refused, too.
                Refusal::Token(message) => {
                    self.use_next_member();
                    return Err(Failure::NotApplied(message));
                }
                Refusal::NoAuthentication => {
                    return Err(unknown("etcd has no authentication"));
                }
                Refusal::Member(error) => {
                    self.use_next_member();
                    // A mistake of the operator says more than a member that is down.
                    if !matches!(refused, Some(Failure::Misconfigured(_))) {
                        refused = Some(error);
                    }
                    if Instant::now() >= until {
                        break;
                    }
                }
            }
        }
        Err(refused.unwrap_or_else(|| unknown("no member of etcd was asked")))
    }

    /// Reads etcd's metrics from the current member.
    pub(super) async fn metrics(&mut self) -> Option<String> {
        let url = self.url("/metrics");
        let request = self.client.get(url).timeout(self.attempt);
        let (status, body) = self.send(request).await.ok()?;
        (status == 200).then(|| String::from_utf8_lossy(&body).into_owned())
    }

    /// Returns the date of the last answer, by the clock of the member. It has whole seconds.
    pub(super) const fn date(&self) -> Option<SystemTime> {
        self.date
    }

    /// Checks the version of the current member again before the next request.
    pub(super) fn check_version_again(&mut self) {
        self.members[self.current].is_checked = false;
    }

    /// Sends the next request to another member.
    fn use_next_member(&mut self) {
        self.current = (self.current + 1) % self.members.len();
    }

    async fn ask_member<R: GatewayRequest>(
        &mut self,
        body: &Bytes,
        until: &mut Instant,
    ) -> Result<R::Answer, Refusal> {
        self.check_version(until).await?;
        self.authenticate(until).await?;
        match self.post(R::PATH, body.clone(), *until).await {
            Err(Refusal::Token(_)) => {}
            answer => return self.parse::<R>(&answer?),
        }
        if let Some(user) = &mut self.user {
            user.access = Access::Needed;
        }
        self.authenticate(until).await?;
        let answer = self.post(R::PATH, body.clone(), *until).await?;
        self.parse::<R>(&answer)
    }

    fn parse<R: GatewayRequest>(&self, answer: &[u8]) -> Result<R::Answer, Refusal> {
        serde_json::from_slice(answer).map_err(|error| {
            let url = self.url(R::PATH);
            Refusal::Unknown(format!("the answer of {url} is not etcd's: {error}"))
        })
    }

    /// Checks the version of the current member, if that is due. The time for it does not count:
    /// the end of the attempt moves to a later time, or a member that takes more than half an
    /// attempt for each answer could never be used again after one that came too late.
    async fn check_version(&mut self, until: &mut Instant) -> Result<(), Refusal> {
        if self.members[self.current].is_checked {
            return Ok(());
        }
        let began = Instant::now();
        let request = self.client.get(self.url("/version"));
        let (_, body) = self.send(request.timeout(left(*until))).await?;
        *until += began.elapsed();
        let member = &mut self.members[self.current];
        // A proxy may hide the version.
        if let Some(version) = Version::read(&body) {
            let mut known = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
            known.last = Some(version.to_string().into());
            match version.verdict(&member.url) {
                Verdict::Good => drop(known.warnings.remove(&member.url)),
                Verdict::Old(message) => {
                    let noted = known.warnings.insert(member.url.clone(), message.clone());
                    if noted.as_ref() != Some(&message) {
                        warn!("{message}");
                    }
                }
                Verdict::Refused(message) => {
                    return Err(Refusal::Member(Failure::Misconfigured(message)));
                }
            }
        }
        member.is_checked = true;
        Ok(())
    }

    /// Gets a token, if one is needed. The time for it does not count: the end of the attempt moves
    /// to a later time.
    async fn authenticate(&mut self, until: &mut Instant) -> Result<(), Refusal> {
        let Some(user) = &mut self.user else {
            return Ok(());
        };
        let now = Instant::now();
        match &user.access {
            Access::Token(_) | Access::Open => return Ok(()),
            Access::Refused(error, until) if now < *until => {
                return Err(Refusal::Refused(error.clone()));
            }
            Access::Refused(..) | Access::Needed => {}
        }
        let password = http::read("password_file", &user.password_file);
        let password = password.map_err(Refusal::Refused)?;
        let password = String::from_utf8_lossy(&password);
        let password = password.trim_end_matches(['\r', '\n']);
        let of_url = HomeUrl::parse(password).ok();
        let of_url = of_url.filter(|url| url.scheme.starts_with("etcd"));
        let of_url = of_url.and_then(|url| url.password);
        let request = AuthenticateRequest {
            name: &user.name,
            password: of_url.as_deref().unwrap_or(password),
        };
        let body = serde_json::to_vec(&request);
        let body = body.map_err(|error| Refusal::Unknown(error.to_string()))?;
        let path = AuthenticateRequest::PATH;
        let answer = self.post(path, body.into(), now + 3 * self.attempt).await;
        *until += now.elapsed();
        let (access, outcome) = match answer {
            Ok(answer) => {
                let answer = self.parse::<AuthenticateRequest<'_>>(&answer)?;
                (Access::Token(answer.token), Ok(()))
            }
            Err(Refusal::NoAuthentication) => {
                info!("etcd has no authentication, so the user in home is not used");
                (Access::Open, Ok(()))
            }
            Err(Refusal::Refused(error)) => (
                Access::Refused(error.clone(), Instant::now() + PASSWORD_PAUSE),
                Err(Refusal::Refused(error)),
            ),
            Err(failure) => return Err(failure),
        };
        if let Some(user) = &mut self.user {
            user.access = access;
        }
        outcome
    }

    async fn post(&mut self, path: &str, body: Bytes, until: Instant) -> Result<Vec<u8>, Refusal> {
        let bytes = body.len();
        let mut request = self
            .client
            .post(self.url(path))
            .header(CONTENT_TYPE, "application/json")
            .timeout(left(until))
            .body(body);
        let is_authentication = path == AuthenticateRequest::PATH;
        if let Some(Access::Token(token)) = self.user.as_ref().map(|user| &user.access)
            && !is_authentication
        {
            request = request.header(AUTHORIZATION, token);
        }
        let (status, answer) = self.send(request).await?;
        if status == 200 {
            return Ok(answer);
        }
        let asked = Asked {
            url: &self.members[self.current].url,
            path,
            user: self.config.user.as_deref(),
            has_certificate: self.certificates.has_identity(),
            prefix: &self.config.prefix,
            bytes,
        };
        Err(meaning(asked, status, &answer))
    }

    async fn send(&mut self, request: RequestBuilder) -> Result<(u16, Vec<u8>), Refusal> {
        let error = match http::send(request).await {
            Ok((status, date, body)) => {
                self.date = date;
                return Ok((status, body));
            }
            Err(error) => error,
        };
        let member = &mut self.members[self.current];
        // It may come back with another version. After a lost answer it is not checked: each attempt
        // would need two answers.
        member.is_checked &= !error.is_connect();
        let has_identity = self.certificates.has_identity();
        if let Some(reason) = http::CERTIFICATES.explain(&error, has_identity) {
            let message = format!("etcd at {}: {reason}", member.url);
            self.read_certificates_again();
            return Err(Refusal::Member(Failure::Misconfigured(message)));
        }
        let message = format!("etcd at {}: {}", member.url, innermost_cause(&error));
        self.read_certificates_again();
        // Without a connection nothing was sent.
        if error.is_connect() {
            return Err(Refusal::Member(Failure::Unknown(message)));
        }
        Err(match error.is_timeout() {
            true => Refusal::Unknown(message),
            false => Refusal::Cut(message),
        })
    }

    /// Replaces the client if its files have changed: a certificate may have expired.
    fn read_certificates_again(&mut self) {
        let Ok(certificates) = Certificates::read(&self.config) else {
            return;
        };
        if certificates == self.certificates {
            return;
        }
        match certificates.client(uses_tls(&self.members), self.attempt) {
            Ok(client) => {
                info!("the changed certificates for etcd are used from now on");
                self.client = client;
                self.certificates = certificates;
            }
            Err(error) => warn!(%error, "can't use the changed certificates for etcd"),
        }
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.members[self.current].url)
    }
}

/// Tokens must not be in a log.
impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Needed => "Needed",
            Self::Token(_) => "Token(..)",
            Self::Open => "Open",
            Self::Refused(..) => "Refused(..)",
        })
    }
}

fn uses_tls(members: &[Member]) -> bool {
    members
        .iter()
        .any(|member| member.url.starts_with("https:"))
}

fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}

fn unknown(message: impl Into<String>) -> Failure {
    Failure::Unknown(message.into())
}
