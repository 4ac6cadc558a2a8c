//! The access to a bucket.

use std::fmt;
use std::sync::Arc;

use object_store::aws::{AmazonS3Builder, S3ConditionalPut};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::{ObjectStore, RetryConfig};

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

    /// Returns the client of the bucket, its name and the prefix. No request is sent.
    pub(super) fn open(&self) -> Result<(Arc<dyn ObjectStore>, String, RegisterKey), Failure> {
        let wrong =
            |reason: &dyn fmt::Display| Failure::Misconfigured(format!("{}: {reason}", self.url));
        let (scheme, rest) = self.url.split_once("://").unwrap_or_default();
        let (first, rest) = rest.split_once('/').unwrap_or_default();
        let (bucket, prefix) = match scheme {
            "az" => rest.split_once('/').unwrap_or_default(),
            _ => (first, rest),
        };
        let prefix = prefix.strip_suffix('/').unwrap_or(prefix).parse().ok();
        let Some(prefix) = prefix.filter(|_| !first.is_empty() && !bucket.is_empty()) else {
            return Err(wrong(&FORM));
        };
        let mut settings = self.settings.clone();
        if let Some(endpoint) = &self.endpoint {
            if endpoint.contains(['@', '?', '#']) {
                return Err(wrong(
                    &"the endpoint must be https://HOST, without a user or a query",
                ));
            }
            let is_plain = endpoint.starts_with("http://");
            if !is_plain && !endpoint.starts_with("https://") {
                let forms = "https:// or http://";
                let problem = format!("the endpoint {endpoint} does not begin with {forms}");
                return Err(wrong(&problem));
            }
            settings.push(("AWS_ENDPOINT_URL_S3".into(), endpoint.clone()));
            settings.push(("AWS_ALLOW_HTTP".into(), is_plain.to_string()));
        }
        // A repeated request whose first answer was lost would be refused, although the first one was
        // applied.
        let retry = RetryConfig {
            max_retries: 0,
            ..RetryConfig::default()
        };
        macro_rules! open {
            ($builder:ident $($fixed:tt)*) => {{
                let mut builder = $builder::from_env().with_retry(retry);
                for (name, value) in settings {
                    let key = name.to_ascii_lowercase().parse();
                    builder = builder.with_config(key.map_err(|error| wrong(&error))?, value);
                }
                Arc::new(builder$($fixed)*.build().map_err(|error| wrong(&error))?)
            }};
        }
        let store: Arc<dyn ObjectStore> = match scheme {
            "s3" => open!(
                AmazonS3Builder
                    .with_bucket_name(bucket)
                    .with_conditional_put(S3ConditionalPut::ETagMatch)
                    // Not all stores have it.
                    .with_disable_bulk_delete(true)
            ),
            "gs" => open!(GoogleCloudStorageBuilder.with_bucket_name(bucket)),
            "az" => open!(
                MicrosoftAzureBuilder
                    .with_account(first)
                    .with_container_name(bucket)
            ),
            _ => return Err(wrong(&FORM)),
        };
        Ok((store, bucket.to_owned(), prefix))
    }
}

const FORM: &str = "it is not the URL of a bucket: use s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or \
    az://ACCOUNT/CONTAINER/PREFIX, with a prefix of names with / between them";

/// A secret must not be in a log.
impl fmt::Debug for BucketAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = f.debug_struct("BucketAccess");
        f.field("url", &self.url).finish_non_exhaustive()
    }
}
