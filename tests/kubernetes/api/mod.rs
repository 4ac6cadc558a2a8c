//! A fake of a Kubernetes API server: the leases of `coordination.k8s.io/v1`, as kube-apiserver 1.37
//! serves them, with versions, watches, tokens, rights, reviews of rights, and faults on demand.

mod http;
mod managers;
mod objects;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;

pub(crate) use objects::{Event, Objects};

/// A request, as far as a rule may look at it.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    /// The name of the token; empty without one.
    pub(crate) user: String,
    /// The object in the request, or null.
    pub(crate) object: Value,
    /// The status of the answer; 0 before there is one.
    pub(crate) status: u16,
}

impl Asked {
    /// Whether it asks for a review of rights, or for the name of the account.
    pub(crate) fn is_review(&self) -> bool {
        !self.path.contains("/leases")
    }
}

/// The fate of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Passes,
    /// It is dropped, without an answer, as while etcd is away or frozen.
    Lost,
    /// It is executed after [`Api::let_held_pass`].
    Held,
    /// It is executed, and the answer is lost.
    LosesAnswer,
    /// It is executed twice, and the second answer arrives.
    Repeated,
    /// It is dropped, and its answer is this error. A status of 429 comes with these seconds.
    Refused(u16, &'static str, u64),
    /// It is dropped, and its answer is an error with this reason and this message.
    Says(u16, &'static str, &'static str),
    /// It is dropped, and its answer is plain text, to be asked again after these seconds, as priority
    /// and fairness and other filters before the API answer.
    Busy(u16, u64),
    /// It is dropped, and its answer is a review with this status.
    Reviewed(&'static str),
    /// It is not executed, and its answer is the object as it is.
    Ignored,
    /// Its answer is the page of a proxy.
    Page(u16),
}

/// Refusals that look like a missing right, or like a wrong request, and are neither.
pub(crate) const REFUSALS: [Fate; 9] = [
    Fate::Says(
        403,
        "Forbidden",
        "leases.coordination.k8s.io \"tests.job\" is forbidden: exceeded quota: none, requested: \
         count/leases.coordination.k8s.io=1, used: count/leases.coordination.k8s.io=0, limited: \
         count/leases.coordination.k8s.io=0",
    ),
    Fate::Says(
        403,
        "Forbidden",
        "leases.coordination.k8s.io \"tests.job\" is forbidden: unable to create new content in \
         namespace apps because it is being terminated",
    ),
    Fate::Says(
        403,
        "Forbidden",
        "leases.coordination.k8s.io \"tests.job\" is forbidden: ValidatingAdmissionPolicy 'no' with \
         binding 'no' denied request: failed expression: request.namespace != 'apps'",
    ),
    Fate::Says(
        422,
        "Invalid",
        "leases.coordination.k8s.io \"tests.job\" is forbidden: ValidatingAdmissionPolicy 'no' with \
         binding 'no' denied request: failed expression: request.namespace != 'apps'",
    ),
    Fate::Says(400, "BadRequest", WEBHOOK),
    Fate::Says(413, "RequestEntityTooLarge", WEBHOOK),
    Fate::Says(409, "Conflict", WEBHOOK),
    Fate::Says(404, "NotFound", WEBHOOK),
    Fate::Says(
        401,
        "Unauthorized",
        "leases.coordination.k8s.io \"tests.job\" is forbidden: ValidatingAdmissionPolicy 'no' with \
         binding 'no' denied request: failed expression: request.namespace != 'apps'",
    ),
];

const WEBHOOK: &str = "admission webhook \"no.example.org\" denied the request: not now";

type Rule = Box<dyn FnMut(&Asked) -> Fate + Send>;

/// The fake. It ends with its runtime.
#[derive(Clone)]
pub(crate) struct Api {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// The newest revision, for watches.
    newest: watch::Sender<u64>,
    /// Whether held requests may pass.
    held_pass: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    objects: Objects,
    asked: Vec<Asked>,
    rule: Option<Rule>,
    /// The valid tokens, each with its name. Without any, each token is valid, and is its own name.
    tokens: Vec<(String, String)>,
    /// The rights that are missing: the name, and the verb.
    missing_rights: Vec<(String, &'static str)>,
}

impl Api {
    /// Starts a server with one namespace.
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            newest: watch::channel(0).0,
            held_pass: watch::channel(false).0,
        });
        let router = http::router(shared.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, shared }
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Decides the fate of each request from now on.
    pub(crate) fn set_rule(&self, rule: impl FnMut(&Asked) -> Fate + Send + 'static) {
        self.shared.lock().rule = Some(Box::new(rule));
    }

    /// Executes all held requests.
    pub(crate) fn let_held_pass(&self) {
        self.shared.held_pass.send_replace(true);
    }

    /// Sets the valid tokens, each with its name.
    pub(crate) fn set_tokens(&self, tokens: &[(&str, &str)]) {
        let owned = |(token, name): &(&str, &str)| ((*token).to_owned(), (*name).to_owned());
        self.shared.lock().tokens = tokens.iter().map(owned).collect();
    }

    /// Takes all rights from this name, or gives them back.
    pub(crate) fn set_rights(&self, name: &str, has_rights: bool) {
        let missing: &[_] = match has_rights {
            true => &[],
            false => &["get", "list", "create", "update", "patch"],
        };
        self.set_missing_rights(name, missing);
    }

    /// Takes the rights for these verbs from this name, and gives it all others.
    pub(crate) fn set_missing_rights(&self, name: &str, verbs: &[&'static str]) {
        let missing = &mut self.shared.lock().missing_rights;
        missing.retain(|(it, _)| it != name);
        missing.extend(verbs.iter().map(|verb| (name.to_owned(), *verb)));
    }

    /// All requests so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.shared.lock().asked.clone()
    }

    /// The object, if it exists.
    pub(crate) fn lease(&self) -> Option<Value> {
        self.shared
            .lock()
            .objects
            .get(super::NAMESPACE, super::LEASE)
    }

    /// All versions of the object, oldest first.
    pub(crate) fn events(&self) -> Vec<Event> {
        self.shared.lock().objects.events().to_vec()
    }

    /// Changes the object as `kubectl edit` does.
    pub(crate) fn edit(&self, edit: impl FnOnce(&mut Value)) {
        let mut state = self.shared.lock();
        if state.objects.edit(super::NAMESPACE, super::LEASE, edit) {
            self.shared.publish(&state);
        }
    }

    /// Deletes the object as `kubectl delete` does.
    pub(crate) fn delete(&self) {
        let mut state = self.shared.lock();
        state.objects.delete(super::NAMESPACE, super::LEASE);
        self.shared.publish(&state);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish(&self, state: &State) {
        self.newest.send_replace(state.objects.revision());
    }
}
