//! A candidate by an elector around kube, as published: `kubert` or `kube-coordinate`.
//!
//! Arguments: the elector, the server, the receiver (HOST:PORT), the namespace, the name of the
//! Lease, the identity, the lease duration in seconds. While the elector says that it leads, it acts
//! at the receiver. SIGTERM ends the election in order.

mod acting;

use std::error::Error;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client, Config};
use kube_coordinate::LeaderElector;
use kubert::lease::{ClaimParams, LeaseManager};
use tokio::signal::unix::{SignalKind, signal};

use acting::Acting;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

struct Candidate {
    client: Client,
    receiver: String,
    namespace: String,
    lease: String,
    identity: String,
    lease_duration: Duration,
}

#[tokio::main]
async fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: [String; 7] = arguments.try_into().map_err(|_| "seven arguments")?;
    let [
        elector,
        server,
        receiver,
        namespace,
        lease,
        identity,
        seconds,
    ] = arguments;
    let mut config = Config::new(server.parse()?);
    config.auth_info.token = Some(identity.clone().into());
    let candidate = Candidate {
        client: Client::try_from(config)?,
        receiver,
        namespace,
        lease,
        identity,
        lease_duration: Duration::from_secs(seconds.parse()?),
    };
    match elector.as_str() {
        "kubert" => candidate.elect_by_kubert().await,
        "kube-coordinate" => candidate.elect_by_kube_coordinate().await,
        _ => Err(format!("unknown elector {elector}").into()),
    }
}

impl Candidate {
    /// A claim says when it expires, and is asked before each action. The object is released at the
    /// end.
    async fn elect_by_kubert(self) -> Outcome {
        let leases: Api<Lease> = Api::namespaced(self.client, &self.namespace);
        let params = ClaimParams {
            lease_duration: self.lease_duration,
            renew_grace_period: self.lease_duration / 2,
        };
        let manager = LeaseManager::init(leases, &self.lease).await?;
        let (claim, task) = manager.spawn(&self.identity, params).await?;
        let identity = self.identity.clone();
        let leads = move || claim.borrow().is_current_for(&identity);
        let acting = Acting::start(&self.receiver, self.identity, leads)?;
        terminated().await?;
        // This drops the claim, which ends the task.
        acting.stop();
        Ok(task.await??)
    }

    /// The state is asked before each action. This elector releases nothing.
    async fn elect_by_kube_coordinate(self) -> Outcome {
        let config = kube_coordinate::Config::default()
            .name(&self.lease)
            .namespace(&self.namespace)
            .identity(&self.identity)
            .manager("kube-coordinate")
            .lease_duration(self.lease_duration)
            .renew_deadline(self.lease_duration / 2)
            .retry_period(Duration::from_secs(1))
            .api_timeout(self.lease_duration / 4);
        let elector = LeaderElector::spawn(config, self.client)?;
        let state = elector.state();
        let leads = move || state.borrow().is_leader();
        let acting = Acting::start(&self.receiver, self.identity, leads)?;
        terminated().await?;
        acting.stop();
        Ok(elector.shutdown().await?)
    }
}

async fn terminated() -> Outcome {
    signal(SignalKind::terminate())?.recv().await;
    Ok(())
}
