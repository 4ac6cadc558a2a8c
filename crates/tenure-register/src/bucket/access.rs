//! The access to a bucket.

use std::fmt;
use std::sync::Arc;

use object_store::aws::{AmazonS3Builder, S3ConditionalPut};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::{ObjectStore, RetryConfig};

use super::observed::Observing;
use crate::{Failure, RegisterKey};

/// The access to a bucket.
///
/// The credentials, the region and other settings come from the variables of the environment that
/// the tools of the provider have, which begin with `AWS_`, `GOOGLE_` or `AZURE_`, or from the role
/// of the machine or pod.
#[derive(Clone, PartialEq, Eq)]
pub struct BucketAccess {
    /// `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX` or `az://ACCOUNT/CONTAINER/PREFIX`. All objects are
    /// below the prefix, which is one or more names with `/` between them.
    pub url: String,
    /// The URL of a store with the API of S3, for example `http://127.0.0.1:9000`; `None` for S3
    /// itself.
    pub endpoint: Option<String>,
    /// Settings by the names of variables, for example `AWS_REGION`. They take precedence over the
    /// environment. The default is none.
    pub settings: Vec<(String, String)>,
}

/// A bucket that can be used.
#[derive(Debug)]
pub(super) struct Bucket {
    pub(super) store: Arc<dyn ObjectStore>,
    /// The URL without the prefix and without a slash at its end.
    pub(super) url: String,
    pub(super) prefix: RegisterKey,
    /// Whether versions are generations and not ETags.
    pub(super) has_generations: bool,
}

impl BucketAccess {
    /// Creates the access to the bucket with this URL, with the defaults of all other values.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            endpoint: None,
            settings: Vec::new(),
        }
    }

    /// Reads the environment. No request is sent.
    pub(super) fn open(&self) -> Result<Bucket, Failure> {
        let wrong =
            |reason: &dyn fmt::Display| Failure::Misconfigured(format!("{}: {reason}", self.url));
        let form = || {
            wrong(
                &"it is not the URL of a bucket: use s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or \
                  az://ACCOUNT/CONTAINER/PREFIX",
            )
        };
        let (scheme, rest) = self.url.split_once("://").ok_or_else(form)?;
        let (first, rest) = rest.split_once('/').ok_or_else(form)?;
        let (container, prefix) = match scheme {
            "az" => rest.split_once('/').ok_or_else(form)?,
            "s3" | "gs" => ("", rest),
            _ => return Err(form()),
        };
        if first.is_empty() || (scheme == "az" && container.is_empty()) {
            return Err(form());
        }
        let prefix: RegisterKey = prefix
            .strip_suffix('/')
            .unwrap_or(prefix)
            .parse()
            .map_err(|error| wrong(&format!("the prefix is not valid: {error}")))?;
        let mut settings = self.settings.clone();
        if let Some(endpoint) = &self.endpoint {
            let is_plain = endpoint.starts_with("http://");
            if scheme != "s3" || !(is_plain || endpoint.starts_with("https://")) {
                return Err(wrong(&format!(
                    "the endpoint {endpoint} can't be used: it is for s3:// only, and is a URL \
                     like https://storage.example"
                )));
            }
            settings.push(("AWS_ENDPOINT".into(), endpoint.clone()));
            settings.push(("AWS_ALLOW_HTTP".into(), is_plain.to_string()));
        }
        // A repeated request whose first answer was lost would end with a refusal, although the first
        // one was applied.
        let retry = RetryConfig {
            max_retries: 0,
            ..RetryConfig::default()
        };
        let name = if scheme == "az" { container } else { first };
        let observing = Observing(name.to_owned());
        macro_rules! open {
            ($builder:ident $($fixed:tt)*) => {{
                let mut builder = $builder::from_env();
                for (name, value) in &settings {
                    let key = name.to_ascii_lowercase().parse();
                    let key = key.map_err(|error| wrong(&error))?;
                    builder = builder.with_config(key, value);
                }
                let builder = builder.with_retry(retry).with_http_connector(observing);
                let store = builder$($fixed)*.build();
                Arc::new(store.map_err(|error| wrong(&error))?)
            }};
        }
        let store: Arc<dyn ObjectStore> = match scheme {
            "s3" => open!(
                AmazonS3Builder
                    .with_bucket_name(first)
                    .with_conditional_put(S3ConditionalPut::ETagMatch)
                    // Not all stores have it.
                    .with_disable_bulk_delete(true)
            ),
            "gs" => open!(GoogleCloudStorageBuilder.with_bucket_name(first)),
            _ => open!(
                MicrosoftAzureBuilder
                    .with_account(first)
                    .with_container_name(container)
            ),
        };
        let slash = if container.is_empty() { "" } else { "/" };
        Ok(Bucket {
            store,
            url: format!("{scheme}://{first}{slash}{container}"),
            prefix,
            has_generations: scheme == "gs",
        })
    }
}

/// A secret must not be in a log.
impl fmt::Debug for BucketAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BucketAccess")
            .field("url", &self.url)
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}
