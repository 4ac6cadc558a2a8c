//! The rows of the table.

use std::collections::BTreeMap;

use axum::http::Method;
use tenure_core::wire::{
    AcquireRequest, BreakRequest, ChangeRequest, ClusterView, Code, HandOverRequest, History,
    LeaseList, LeaseView, MetadataRequest, NamespaceList, Overview, ReleaseRequest, RenewManyReply,
    RenewManyRequest, RenewRequest, ResignRequest, SessionCode, SessionReply, SessionRequest,
    VerifyReply, VerifyRequest, WaiterList,
};

use super::description::Kind::{Large, LongPoll, Probe, Renewal, Renewals, Stream};
use super::description::{
    Tag, event_stream, file, json, named, nothing, optional, required, required_up_to, text,
};
use super::{Route, answer};
use crate::access::{Right, Role};
use crate::http::authorize::TargetOf::{Anywhere, Lease, LeaseOrEvents, Namespace, Store};
use crate::http::query::{HISTORY, LIST, NAMESPACES, OVERVIEW, POLL, STREAM};
use crate::http::{
    cluster, events, health, identity, leases, metrics, openapi, overview, page, renewals, session,
};

const GET: Method = Method::GET;
const POST: Method = Method::POST;
const PUT: Method = Method::PUT;
const DELETE: Method = Method::DELETE;

const READ: Right = Right::Role(Role::Read);
const CANDIDATE: Right = Right::Role(Role::Candidate);
const OPERATOR: Right = Right::Role(Role::Operator);

/// Returns the path of a lease, with this end.
macro_rules! lease {
    ($end:literal) => {
        concat!("/v1/namespaces/{namespace}/leases/{lease}", $end)
    };
}

/// All routes. A route without a right or without a description does not compile.
pub(crate) static ROUTES: [Route; 33] = [
    named("page", Tag::Page, "the page that shows elections")
        .at(GET, "/", Right::Open, Store, answer!(page::page))
        .answers(&[file(&["text/html"]), nothing(304)])
        .codes(&[Code::OverLimit]),
    named("page_file", Tag::Page, "a file of the page")
        .at(GET, "/ui/{file}", Right::Open, Store, answer!(page::file))
        .answers(&[
            file(&["text/css", "text/javascript", "image/svg+xml"]),
            nothing(304),
        ])
        .codes(&[Code::UnknownRoute, Code::OverLimit]),
    named("livez", Tag::Store, "whether the process lives")
        .at(GET, "/livez", Right::Open, Store, answer!(health::live))
        .kind(Probe)
        .answers(&[text(200)]),
    named("readyz", Tag::Store, "whether the store accepts requests")
        .at(GET, "/readyz", Right::Open, Store, answer!(health::ready))
        .kind(Probe)
        .answers(&[text(200)])
        .codes(&[Code::Stopping, Code::HomeUnavailable, Code::NotActive]),
    named(
        "active",
        Tag::Store,
        "whether this server accepts requests: always, or as the active one of a cluster",
    )
    .at(GET, "/active", Right::Open, Store, answer!(cluster::active))
    .kind(Probe)
    .answers(&[text(200)])
    .codes(&[Code::Stopping, Code::HomeUnavailable, Code::NotActive]),
    named(
        "cluster",
        Tag::Store,
        "the part of this server in its cluster, and the active server",
    )
    .at(
        GET,
        "/v1/cluster",
        Right::Credential,
        Store,
        answer!(cluster::view),
    )
    .answers(&[json::<ClusterView>(200)])
    .codes(&[Code::UnknownRoute]),
    named(
        "cluster_hand_over",
        Tag::Store,
        "makes the active server of a cluster give way to another one",
    )
    .at(
        POST,
        "/v1/cluster/hand-over",
        OPERATOR,
        Store,
        answer!(cluster::hand_over),
    )
    .body(optional::<ResignRequest>())
    .answers(&[nothing(202)])
    .codes(&[Code::InvalidName, Code::UnknownRoute, Code::NotActive]),
    named("openapi", Tag::Store, "this description of the API")
        .at(
            GET,
            "/openapi.json",
            Right::Open,
            Store,
            answer!(openapi::serve),
        )
        .answers(&[json::<BTreeMap<String, serde_json::Value>>(200)])
        .codes(&[Code::OverLimit]),
    named(
        "metrics",
        Tag::Store,
        "the metrics of the store, as text for Prometheus",
    )
    .at(
        GET,
        "/metrics",
        Right::Role(Role::Metrics),
        Store,
        answer!(metrics::text),
    )
    .kind(Large)
    .answers(&[text(200)]),
    named("limits", Tag::Store, "the limits of the store")
        .at(
            GET,
            "/v1/limits",
            Right::Credential,
            Store,
            answer!(health::limits),
        )
        .answers(&[json::<BTreeMap<String, u64>>(200)]),
    named(
        "whoami",
        Tag::Access,
        "the caller's principal and its grants",
    )
    .at(
        GET,
        "/v1/whoami",
        Right::Credential,
        Store,
        answer!(identity::whoami),
    )
    .answers(&[json::<identity::WhoAmI>(200)]),
    named(
        "session",
        Tag::Access,
        "a session, from a one-time code or from another credential",
    )
    .at(
        POST,
        "/v1/session",
        Right::CodeOrOwnCredential,
        Store,
        answer!(session::create),
    )
    .body(optional::<SessionRequest>())
    .answers(&[json::<SessionReply>(200)]),
    named(
        "session_end",
        Tag::Access,
        "ends the session that the request has as its credential",
    )
    .at(
        DELETE,
        "/v1/session",
        Right::Session,
        Store,
        answer!(session::end),
    )
    .answers(&[nothing(204)]),
    named("session_code", Tag::Access, "a one-time code for a session")
        .at(
            POST,
            "/v1/session/code",
            Right::OwnCredential,
            Store,
            answer!(session::create_code),
        )
        .answers(&[json::<SessionCode>(200)]),
    named(
        "overview",
        Tag::Leases,
        "the leases of all namespaces, those that need a look first",
    )
    .at(
        GET,
        "/v1/overview",
        READ,
        Anywhere,
        answer!(overview::overview),
    )
    .kind(Large)
    .query(&OVERVIEW)
    .answers(&[json::<Overview>(200)])
    .codes(&[Code::OutOfRange]),
    named("all_events", Tag::Events, "the events of all namespaces")
        .at(GET, "/v1/events", READ, Anywhere, answer!(events::of_all))
        .kind(Stream)
        .query(&STREAM)
        .answers(&[event_stream(200)])
        .codes(&[Code::OutOfRange]),
    named(
        "namespaces",
        Tag::Leases,
        "the namespaces, and the number of leases in each of them",
    )
    .at(
        GET,
        "/v1/namespaces",
        READ,
        Anywhere,
        answer!(overview::namespaces),
    )
    .kind(Large)
    .query(&NAMESPACES)
    .answers(&[json::<NamespaceList>(200)]),
    named(
        "access",
        Tag::Access,
        "all principals, and when their tokens were last used",
    )
    .at(
        GET,
        "/v1/access",
        Right::Role(Role::Admin),
        Store,
        answer!(identity::principals),
    )
    .kind(Large)
    .answers(&[json::<identity::AccessView>(200)]),
    named("list", Tag::Leases, "the leases of a namespace")
        .at(
            GET,
            "/v1/namespaces/{namespace}/leases",
            READ,
            Namespace,
            answer!(leases::list),
        )
        .kind(Large)
        .query(&LIST)
        .answers(&[json::<LeaseList>(200)])
        .codes(&[Code::OutOfRange]),
    named(
        "renew_many",
        Tag::Leases,
        "renews many leases; each succeeds or fails independently",
    )
    .at(
        POST,
        "/v1/namespaces/{namespace}/renew",
        CANDIDATE,
        Namespace,
        answer!(renewals::renew),
    )
    .kind(Renewals)
    .body(required_up_to::<RenewManyRequest>(renewals::MAX_BYTES))
    .answers(&[json::<RenewManyReply>(200)])
    .codes(&[Code::OutOfRange]),
    named(
        "view",
        Tag::Leases,
        "one lease, or the events of the namespace",
    )
    .at(
        GET,
        lease!(""),
        READ,
        LeaseOrEvents,
        answer!(events::of_namespace_or_view),
    )
    .kind(LongPoll)
    .query(&POLL)
    .answers(&[json::<LeaseView>(200)])
    .codes(&[Code::UnknownLease, Code::OutOfRange]),
    named("delete", Tag::Leases, "deletes a lease")
        .at(DELETE, lease!(""), OPERATOR, Lease, answer!(leases::delete))
        .answers(&[nothing(204)])
        .codes(&[Code::UnknownLease, Code::LeaseHeld, Code::DiskFull]),
    named("events", Tag::Events, "the events of a lease")
        .at(
            GET,
            lease!("/events"),
            READ,
            Lease,
            answer!(events::of_lease),
        )
        .kind(Stream)
        .query(&STREAM)
        .answers(&[event_stream(200)])
        .codes(&[Code::OutOfRange]),
    named("history", Tag::Leases, "the terms of a lease")
        .at(
            GET,
            lease!("/history"),
            READ,
            Lease,
            answer!(leases::history),
        )
        .kind(Large)
        .query(&HISTORY)
        .answers(&[json::<History>(200)])
        .codes(&[Code::UnknownLease, Code::OutOfRange]),
    named(
        "waiters",
        Tag::Leases,
        "the candidates that wait for a lease",
    )
    .at(
        GET,
        lease!("/waiters"),
        READ,
        Lease,
        answer!(overview::waiters),
    )
    .kind(Large)
    .answers(&[json::<WaiterList>(200)])
    .codes(&[Code::UnknownLease]),
    named("verify", Tag::Leases, "whether an epoch is the current one")
        .at(
            POST,
            lease!("/verify"),
            READ,
            Lease,
            answer!(leases::verify),
        )
        .body(required::<VerifyRequest>())
        .answers(&[json::<VerifyReply>(200)])
        .codes(&[Code::UnknownLease, Code::OutOfRange]),
    named("acquire", Tag::Leases, "acquires a lease, or waits for it")
        .at(
            POST,
            lease!("/acquire"),
            CANDIDATE,
            Lease,
            answer!(leases::acquire),
        )
        .kind(LongPoll)
        .body(required::<AcquireRequest>())
        .answers(&[json::<LeaseView>(200)])
        .codes(&[
            Code::OutOfRange,
            Code::LeaseHeld,
            Code::LeaseBreaking,
            Code::LeaseBroken,
            Code::LeaseIdRetired,
            Code::EpochPassed,
            Code::EpochsExhausted,
            Code::DiskFull,
        ]),
    named("renew", Tag::Leases, "renews one's own lease")
        .at(
            POST,
            lease!("/renew"),
            CANDIDATE,
            Lease,
            answer!(leases::operation, leases::renew),
        )
        .kind(Renewal)
        .body(required::<RenewRequest>())
        .answers(&[json::<LeaseView>(200)])
        .codes(&[
            Code::OutOfRange,
            Code::UnknownLease,
            Code::LeaseIdMismatch,
            Code::LeaseBroken,
            Code::LeaseExpired,
            Code::DiskFull,
        ]),
    named(
        "change",
        Tag::Leases,
        "changes the lease id of one's own lease",
    )
    .at(
        POST,
        lease!("/change"),
        CANDIDATE,
        Lease,
        answer!(leases::operation, leases::change),
    )
    .body(required::<ChangeRequest>())
    .answers(&[json::<LeaseView>(200)])
    .codes(&[
        Code::UnknownLease,
        Code::LeaseIdMismatch,
        Code::LeaseNotHeld,
        Code::LeaseBreaking,
        Code::DiskFull,
    ]),
    named("release", Tag::Leases, "releases one's own lease")
        .at(
            POST,
            lease!("/release"),
            CANDIDATE,
            Lease,
            answer!(leases::operation, leases::release),
        )
        .body(required::<ReleaseRequest>())
        .answers(&[json::<LeaseView>(200)])
        .codes(&[Code::UnknownLease, Code::LeaseIdMismatch, Code::DiskFull]),
    named(
        "metadata",
        Tag::Leases,
        "sets the metadata of one's own lease",
    )
    .at(
        PUT,
        lease!("/metadata"),
        CANDIDATE,
        Lease,
        answer!(leases::operation, leases::set_metadata),
    )
    .body(required::<MetadataRequest>())
    .answers(&[json::<LeaseView>(200)])
    .codes(&[
        Code::UnknownLease,
        Code::LeaseIdMismatch,
        Code::LeaseBreaking,
        Code::LeaseBroken,
        Code::LeaseExpired,
        Code::DiskFull,
    ]),
    named(
        "handover",
        Tag::Leases,
        "hands a lease over; without a lease id it needs operator",
    )
    .at(
        POST,
        lease!("/handover"),
        Right::Either(Role::Candidate, Role::Operator),
        Lease,
        answer!(leases::operation, leases::hand_over),
    )
    .body(required::<HandOverRequest>())
    .answers(&[json::<LeaseView>(200)])
    .codes(&[
        Code::OutOfRange,
        Code::UnknownLease,
        Code::LeaseIdMismatch,
        Code::LeaseNotHeld,
        Code::LeaseBreaking,
        Code::LeaseBroken,
        Code::LeaseExpired,
        Code::NotWaiting,
        Code::DiskFull,
    ]),
    named("break", Tag::Leases, "breaks a lease")
        .at(
            POST,
            lease!("/break"),
            OPERATOR,
            Lease,
            answer!(leases::operation, leases::break_lease),
        )
        .body(optional::<BreakRequest>())
        .answers(&[json::<LeaseView>(200)])
        .codes(&[
            Code::OutOfRange,
            Code::UnknownLease,
            Code::LeaseNotHeld,
            Code::DiskFull,
        ]),
];

/// The stream of a namespace's events, for the description only. The route of one lease answers it:
/// both have the same path if the lease is named `events`.
pub(in crate::http) static NAMESPACE_EVENTS: Route = named(
    "namespace_events",
    Tag::Events,
    "the events of all leases of a namespace",
)
.at(
    GET,
    "/v1/namespaces/{namespace}/leases/events",
    READ,
    Namespace,
    answer!(events::of_namespace_or_view),
)
.kind(Stream)
.query(&STREAM)
.answers(&[event_stream(200)])
.codes(&[Code::OutOfRange]);
