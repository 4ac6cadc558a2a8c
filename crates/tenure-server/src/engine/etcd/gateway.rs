//! The blocking form of a connection to etcd.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use tenure_register::etcd::{self, WarnedOf, wire::GatewayRequest};
use tokio::runtime::{Builder, Runtime};

use crate::config::EtcdConfig;
use crate::engine::shared::log::LogError;

/// A connection with a runtime of its own.
#[derive(Debug)]
pub(super) struct Gateway {
    gateway: etcd::Gateway,
    /// `None` only while this is dropped.
    runtime: Option<Runtime>,
}

impl Gateway {
    pub(super) fn open(
        config: &EtcdConfig,
        attempt: Duration,
        warned_of: &WarnedOf,
    ) -> Result<Self, LogError> {
        Self::of(etcd::Gateway::open(config, attempt, Arc::clone(warned_of))?)
    }

    fn of(gateway: etcd::Gateway) -> Result<Self, LogError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime
            .map_err(|error| LogError::Misconfigured(format!("can't start a runtime: {error}")))?;
        Ok(Self {
            gateway,
            runtime: Some(runtime),
        })
    }

    /// Opens a connection of its own to each member, with the token of this one.
    pub(super) fn to_each_member(&self) -> Result<Vec<Self>, LogError> {
        let gateways = self.gateway.to_each_member()?;
        gateways.into_iter().map(Self::of).collect()
    }

    pub(super) fn ask<R: GatewayRequest>(&mut self, request: &R) -> Result<R::Answer, LogError> {
        let Some(runtime) = &self.runtime else {
            return Err(LogError::Unknown("the connection ends".into()));
        };
        runtime.block_on(self.gateway.ask(request))
    }

    /// Reads etcd's metrics from the current member.
    pub(super) fn metrics(&mut self) -> Option<String> {
        let runtime = self.runtime.as_ref()?;
        runtime.block_on(self.gateway.metrics())
    }
}

impl Deref for Gateway {
    type Target = etcd::Gateway;

    fn deref(&self) -> &etcd::Gateway {
        &self.gateway
    }
}

impl DerefMut for Gateway {
    fn deref_mut(&mut self) -> &mut etcd::Gateway {
        &mut self.gateway
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // A look-up of a name that hangs must not delay the end.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
