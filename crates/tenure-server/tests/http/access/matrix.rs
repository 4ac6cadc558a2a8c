//! The complete matrix of rights, over the wire: each request, by each role and without a role,
//! with each kind of credential, for leases within the scope and outside the scope, and for leases
//! of the caller, of another principal and without an owner.

use super::*;

use futures_util::StreamExt;
use futures_util::stream::iter;

/// The roles that may send a request, and its statuses for a lease of the caller, of another
/// principal, and without an owner. The matrix is written by hand, apart from the table of routes.
type Row = (&'static str, &'static str, [u16; 3]);

const READERS: &str = "read candidate operator admin";
const OWNERS: &str = "candidate admin";
const OPERATORS: &str = "operator admin";
const NO_SESSION: &str = "any credential but a session";
const SESSION: &str = "a session";

/// The requests that are not about one lease or one namespace.
const OF_STORE: [&str; 18] = [
    "active",
    "cluster",
    "cluster_hand_over",
    "page",
    "page_file",
    "openapi",
    "metrics",
    "livez",
    "readyz",
    "limits",
    "whoami",
    "session",
    "session_code",
    "session_end",
    "overview",
    "all_events",
    "namespaces",
    "access",
];

/// The matrix of rights. `switchover` is `handover` without a lease id.
const MATRIX: [Row; 34] = [
    ("page", "without a credential", [200, 200, 200]),
    ("page_file", "without a credential", [200, 200, 200]),
    ("livez", "without a credential", [200, 200, 200]),
    ("readyz", "without a credential", [200, 200, 200]),
    ("active", "without a credential", [200, 200, 200]),
    // This store is not in a cluster.
    ("cluster", "any credential", [404, 404, 404]),
    ("cluster_hand_over", OPERATORS, [404, 404, 404]),
    ("metrics", "metrics admin", [200, 200, 200]),
    ("openapi", "without a credential", [200, 200, 200]),
    ("limits", "any credential", [200, 200, 200]),
    ("whoami", "any credential", [200, 200, 200]),
    ("session", NO_SESSION, [200, 200, 200]),
    ("session_code", NO_SESSION, [200, 200, 200]),
    ("session_end", SESSION, [204, 204, 204]),
    ("overview", READERS, [200, 200, 200]),
    ("all_events", READERS, [200, 200, 200]),
    ("namespaces", READERS, [200, 200, 200]),
    ("access", "admin", [200, 200, 200]),
    ("list", READERS, [200, 200, 200]),
    ("renew_many", OWNERS, [200, 200, 200]),
    ("view", READERS, [200, 200, 200]),
    ("delete", OPERATORS, [409, 409, 409]),
    ("events", READERS, [200, 200, 200]),
    ("history", READERS, [200, 200, 200]),
    ("waiters", READERS, [200, 200, 200]),
    ("verify", READERS, [200, 200, 200]),
    ("acquire", OWNERS, [200, 409, 200]),
    ("renew", OWNERS, [200, 409, 200]),
    ("change", OWNERS, [200, 409, 200]),
    ("release", OWNERS, [200, 409, 200]),
    ("metadata", OWNERS, [200, 409, 200]),
    ("handover", OWNERS, [200, 409, 200]),
    ("switchover", OPERATORS, [200, 200, 200]),
    ("break", OPERATORS, [200, 200, 200]),
];

const ROLES: [&str; 6] = ["read", "candidate", "operator", "metrics", "admin", "none"];

/// The namespaces and the first letters of lease names.
const TARGETS: [(&str, &str); 4] = [("a", "jo"), ("a", "xo"), ("b", "jo"), ("b", "xo")];

/// The scopes of grants, and whether each contains the whole store, some lease of namespaces `a`
/// and `b`, and the leases of each target.
const SCOPES: [(&str, &str, &str, Covers); 3] = [
    (
        "all",
        "*",
        "",
        (true, [true, true], [true, true, true, true]),
    ),
    (
        "of-a",
        "a",
        "",
        (false, [true, false], [true, true, false, false]),
    ),
    (
        "jo-of-a",
        "a",
        "jo",
        (false, [true, false], [true, false, false, false]),
    ),
];

type Covers = (bool, [bool; 2], [bool; 4]);

/// The owner of a lease, in relation to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Caller,
    Another,
    None,
}

/// One request.
#[derive(Debug)]
struct Cell {
    row: Row,
    /// The name of the caller. An empty name means no credential.
    caller: String,
    role: &'static str,
    covers: Covers,
    target: usize,
    owner: Owner,
    number: u32,
}

impl Cell {
    fn all() -> Vec<Self> {
        let mut cells = Vec::new();
        let mut number = 0;
        let mut add = |row: Row, caller: String, role, covers| {
            let is_of_lease = !OF_STORE.contains(&row.0);
            let targets = if is_of_lease { TARGETS.len() } else { 1 };
            let owners: &[Owner] = match is_of_lease && !caller.is_empty() {
                true => &[Owner::Caller, Owner::Another, Owner::None],
                false => &[Owner::None],
            };
            for target in 0..targets {
                for owner in owners {
                    number += 1;
                    cells.push(Self {
                        row,
                        caller: caller.clone(),
                        role,
                        covers,
                        target,
                        owner: *owner,
                        number,
                    });
                }
            }
        };
        for row in MATRIX {
            add(
                row,
                String::new(),
                "nobody",
                (false, [false; 2], [false; 4]),
            );
            for (name, role, covers, _) in callers() {
                add(row, name.clone(), role, covers);
                add(row, format!("ci:{name}"), role, covers);
                add(row, format!("session:{name}"), role, covers);
            }
        }
        cells
    }

    fn lease(&self) -> String {
        format!("{}-{:06}", TARGETS[self.target].1, self.number)
    }

    fn lease_id(&self) -> String {
        id(self.number)
    }

    fn path(&self, label: &str) -> String {
        let label = if label == "switchover" {
            "handover"
        } else {
            label
        };
        let route = routes().iter().find(|route| route.label == label);
        let path = path_of(route.unwrap(), TARGETS[self.target].0, &self.lease());
        match label {
            "list" => format!("{path}?prefix={}", self.lease()),
            _ => path,
        }
    }

    /// Returns the status by the table above.
    fn expected(&self) -> u16 {
        let (label, roles, statuses) = self.row;
        let status = statuses[self.owner as usize];
        let (all, namespaces, targets) = self.covers;
        let is_covered = match label {
            "access" | "cluster_hand_over" => all,
            "overview" | "all_events" | "namespaces" => true,
            // A grant of this role is for the whole store.
            "metrics" => all || self.role == "metrics",
            "list" | "renew_many" => namespaces[self.target / 2],
            _ => targets[self.target],
        };
        match roles {
            "without a credential" => status,
            _ if self.caller.is_empty() => 401,
            "any credential" => status,
            NO_SESSION if self.caller.starts_with("session:") => 403,
            NO_SESSION => status,
            SESSION if self.caller.starts_with("session:") => status,
            roles if is_covered && roles.split(' ').any(|role| role == self.role) => status,
            _ => 403,
        }
    }

    /// Returns the code of the one renewal in a request for many, or `None` if it succeeds.
    fn expected_renewal(&self) -> Option<&'static str> {
        match self.owner {
            _ if !self.covers.2[self.target] => Some("forbidden"),
            Owner::Another => Some("lease_id_mismatch"),
            Owner::Caller | Owner::None => None,
        }
    }

    async fn acquire(&self, guarded: &Guarded, open: &Running) {
        let (path, body) = (self.path("acquire"), body_of("acquire", &self.lease_id()));
        let (status, view) = match self.owner {
            Owner::Caller => guarded.post(&self.caller, &path, body).await,
            Owner::Another => guarded.post("another", &path, body).await,
            Owner::None => {
                let request = open.api.request(Method::POST, &path).json(&body);
                crate::common::answer(request.send().await.unwrap()).await
            }
        };
        assert_eq!(status, 200, "{self:?}: {view}");
        let owner = match self.owner {
            Owner::Caller => json!(self.caller.trim_start_matches("session:")),
            Owner::Another => json!("another"),
            Owner::None => Value::Null,
        };
        assert_eq!(view["owner"], owner, "{self:?}: {view}");
    }

    async fn check(&self, guarded: &Guarded) {
        let label = self.row.0;
        let route_label = if label == "switchover" {
            "handover"
        } else {
            label
        };
        let route = routes().iter().find(|route| route.label == route_label);
        let mut body = body_of(route_label, &self.lease_id());
        match label {
            "switchover" => drop(body.as_object_mut().unwrap().remove("lease_id")),
            "renew_many" => {
                body = json!({"leases": [{"lease": self.lease(), "lease_id": self.lease_id()}]});
            }
            _ => {}
        }
        let method = route.unwrap().method.clone();
        let response = guarded
            .send(&self.caller, method, &self.path(label), body)
            .await;
        let status = response.status().as_u16();
        assert_eq!(status, self.expected(), "{self:?}");
        if status != 200 || !matches!(label, "list" | "renew_many") {
            return;
        }
        let answer = crate::common::answer(response).await.1;
        match label {
            "renew_many" => {
                let code = answer["results"][0]["code"].as_str();
                assert_eq!(code, self.expected_renewal(), "{self:?}: {answer}");
            }
            "list" => {
                let listed = answer["leases"].as_array().unwrap().len();
                assert_eq!(
                    listed == 1,
                    self.covers.2[self.target],
                    "{self:?}: {answer}"
                );
            }
            _ => {}
        }
    }
}

/// Returns a principal for each role and scope: its name, its role, its scope, and its grants.
fn callers() -> Vec<(String, &'static str, Covers, String)> {
    let of_scope = |(scope, namespace, prefix, covers)| {
        ROLES.map(|role| {
            let grants = match role {
                "none" => String::new(),
                role => grant(role, namespace, prefix),
            };
            (format!("{role}-{scope}"), role, covers, grants)
        })
    };
    SCOPES.map(of_scope).into_iter().flatten().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_gets_the_answer_of_the_matrix() {
    const AT_ONCE: usize = 16;
    let labels: BTreeSet<&str> = routes().iter().map(|route| route.label).collect();
    let rows = MATRIX.iter().map(|row| row.0);
    assert_eq!(
        labels,
        rows.filter(|label| *label != "switchover").collect()
    );

    let callers = callers();
    let names = callers.iter().map(|(name, ..)| name.as_str());
    let names: Vec<&str> = names.chain(["another"]).collect();
    let admin = grant("admin", "*", "");
    let admins: Vec<(&str, &str)> = names.iter().map(|name| (*name, &*admin)).collect();
    let mut guarded = Guarded::start(&admins);
    for name in &names {
        guarded.sign_in(name).await;
    }
    // Leases without an owner are created while the store has no access control.
    let open = served(bind(&guarded.store).with_access(Access::anonymous()));
    let cells = Cell::all();
    let acquired = iter(&cells).for_each_concurrent(AT_ONCE, |cell| cell.acquire(&guarded, &open));
    acquired.await;
    let grants = callers
        .iter()
        .map(|(name, .., grants)| (&**name, &**grants));
    let grants: Vec<(&str, &str)> = grants.chain([("another", &*admin)]).collect();
    guarded.change(&grants);
    // A request that ends a session must come after all others with that session.
    let (ends, others): (Vec<_>, Vec<_>) =
        cells.iter().partition(|cell| cell.row.0 == "session_end");
    for cells in [others, ends] {
        let checked = iter(cells).for_each_concurrent(AT_ONCE, |cell| cell.check(&guarded));
        checked.await;
    }
    assert!(cells.len() > 8_000, "{}", cells.len());
}
