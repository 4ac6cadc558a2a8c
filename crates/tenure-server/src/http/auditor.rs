//! Operators' changes, and their lines in the audit log.

use std::net::IpAddr;

use tenure_core::wire::{LeaseView, Problem};

use super::call::Call;
use super::request_id::RequestId;
use crate::Store;
use crate::access::{Access, Caller};
use crate::audit::{Audit, AuditEntry, AuditKind};
use crate::model::{LeaseKey, TraceId};

/// The recorder of a caller's acts as an operator.
#[derive(Debug)]
pub(super) struct Auditor {
    audit: Audit,
    caller: Caller,
    address: Option<IpAddr>,
    request: RequestId,
}

impl Auditor {
    pub(super) fn of(call: &Call<'_>) -> Self {
        Self {
            audit: call.audit.clone(),
            caller: call.caller.clone(),
            address: call.client,
            request: call.id.id().clone(),
        }
    }

    /// Executes an operator's change, and answers when its line is written. If the log is required
    /// and can't be written, the change is refused. The refusal is recorded, too: if its line can
    /// be written, the next change is executed.
    pub(super) async fn record<T>(
        &self,
        kind: AuditKind,
        (store, key): (&Store, &LeaseKey),
        reason: Option<String>,
        work: impl Future<Output = Result<T, Problem>>,
    ) -> Result<T, Problem> {
        // After the change the lease may have no holder.
        let before: Option<LeaseView> = store.view(key).await.ok();
        let of_lease = |entry: AuditEntry| {
            let entry = entry.of_election(key.as_str()).with_reason(reason);
            match &before {
                Some(view) => entry.of_lease(view),
                None => entry,
            }
        };
        self.record_with(kind, of_lease, work).await
    }

    /// Like [`Auditor::record`], for a change of the server's role in its cluster. `to` is the
    /// server that is to take over.
    pub(super) async fn record_resignation<T>(
        &self,
        to: Option<String>,
        work: impl Future<Output = Result<T, Problem>>,
    ) -> Result<T, Problem> {
        let with_server = |entry: AuditEntry| entry.with_reason(to.map(|to| format!("to {to}")));
        self.record_with(AuditKind::Resign, with_server, work).await
    }

    async fn record_with<T>(
        &self,
        kind: AuditKind,
        details: impl FnOnce(AuditEntry) -> AuditEntry,
        work: impl Future<Output = Result<T, Problem>>,
    ) -> Result<T, Problem> {
        let client = self.caller.tenant();
        let (result, place, has_own_line) = match self.audit.check() {
            Ok(()) => match self.audit.begin_act(&client) {
                Ok(place) => {
                    let result = work.await;
                    let is_done = result.is_ok();
                    (result, place, is_done)
                }
                Err(full) => (Err(full), None, false),
            },
            // The first of these lines that can be written shows that acts may be done again.
            Err(unwritable) => (Err(unwritable), None, true),
        };
        let outcome = match &result {
            Ok(_) => "done",
            Err(problem) => problem.code.as_str(),
        };
        let entry = AuditEntry::new(kind, outcome)
            .of_caller(&self.caller)
            .of_address(self.address)
            .of_request(Some(self.request.to_string()))
            .of_trace(TraceId::current());
        let entry = details(entry);
        if has_own_line {
            self.audit.record_act(entry, place).await;
        } else {
            self.audit.record_refused_act(&client, entry).await;
        }
        result
    }
}

impl Auditor {
    /// Uses a one-time code up, and returns the caller that asked for it. A wrong code is recorded
    /// as a wrong credential.
    pub(super) fn use_code(&self, access: &Access, code: &str) -> Result<Caller, Problem> {
        let used = access.use_code(code, self.address);
        if let Err(problem) = &used {
            let request = || self.request.to_string();
            let outcome = problem.code.as_str();
            self.audit.record_refusal(self.address, outcome, request);
        }
        used
    }

    /// Records that a session was made by this caller, with a code or without one.
    pub(super) fn record_sign_in(&self, maker: &Caller, by_code: bool) {
        let entry = AuditEntry::new(AuditKind::SignIn, "done")
            .of_caller(maker)
            .of_address(self.address)
            .of_request(Some(self.request.to_string()))
            .with_reason(by_code.then(|| "one-time code".to_owned()));
        self.audit.record_sign_in(&maker.tenant(), entry);
    }
}
