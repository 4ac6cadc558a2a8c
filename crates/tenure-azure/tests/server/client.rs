//! A client that signs requests like the SDKs, and returns complete responses.

use std::collections::BTreeMap;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use chrono::Utc;
use reqwest::{Client, Method};
use tenure_azure::server::{Azure, AzureConfig, ServedAccount};
use tenure_server::{Server, Store, StoreConfig};

use crate::common::{Running, served};

pub const ACCOUNT: &str = "devstoreaccount1";
pub const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// A response.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    /// The header `x-ms-error-code`; empty if it is absent.
    pub code: String,
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

/// A client of one account.
#[derive(Clone)]
pub struct Az {
    pub origin: String,
    pub http: Client,
    pub account: String,
    pub key: String,
}

pub fn development() -> AzureConfig {
    AzureConfig::new(vec![ServedAccount::development()])
}

/// Starts a store with the protocol. Returns it with a client of both protocols.
pub fn start(config: StoreConfig, azure: AzureConfig) -> (Running, Az) {
    let store = Store::open(config).expect("a store");
    let azure = Azure::open(&store, azure).expect("the protocol");
    let server = Server::bind(store, "127.0.0.1:0".parse().unwrap()).unwrap();
    let running = served(server.with_protocol(azure));
    let az = Az {
        origin: running.api.origin.clone(),
        http: running.api.http.clone(),
        account: ACCOUNT.into(),
        key: KEY.into(),
    };
    (running, az)
}

pub fn in_memory() -> (Running, Az) {
    start(StoreConfig::memory(), development())
}

impl Az {
    pub async fn put(&self, target: &str, headers: &[(&str, &str)]) -> Answer {
        self.send(Method::PUT, target, headers, b"").await
    }

    pub async fn get(&self, target: &str, headers: &[(&str, &str)]) -> Answer {
        self.send(Method::GET, target, headers, b"").await
    }

    pub async fn head(&self, target: &str, headers: &[(&str, &str)]) -> Answer {
        self.send(Method::HEAD, target, headers, b"").await
    }

    pub async fn delete(&self, target: &str, headers: &[(&str, &str)]) -> Answer {
        self.send(Method::DELETE, target, headers, b"").await
    }

    pub async fn put_block(&self, target: &str, more: &[(&str, &str)], body: &[u8]) -> Answer {
        let mut headers = vec![("x-ms-blob-type", "BlockBlob")];
        headers.extend(more);
        self.send(Method::PUT, target, &headers, body).await
    }

    /// Sends a signed request to `/{account}{target}`.
    pub async fn send(
        &self,
        method: Method,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let date = Utc::now().format("%a, %d %b %Y %H:%M:%S GMT").to_string();
        let mut all: BTreeMap<String, String> = headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        all.entry("x-ms-date".into()).or_insert(date);
        all.entry("x-ms-version".into())
            .or_insert_with(|| "2026-10-06".into());
        if method == Method::PUT || method == Method::POST {
            all.insert("content-length".into(), body.len().to_string());
        }
        let authorization = self.signature(&method, target, &all);
        all.entry("authorization".into()).or_insert(authorization);
        let url = format!("{}/{}{target}", self.origin, self.account);
        let mut request = self.http.request(method, url).body(body.to_vec());
        for (name, value) in &all {
            request = request.header(name, value);
        }
        let response = request.send().await.expect("an answer");
        let headers: BTreeMap<String, String> = response
            .headers()
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
            .collect();
        Answer {
            status: response.status().as_u16(),
            code: headers.get("x-ms-error-code").cloned().unwrap_or_default(),
            headers,
            body: response.bytes().await.expect("a body").to_vec(),
        }
    }

    /// Returns the header `Authorization` of a request.
    pub fn signature(
        &self,
        method: &Method,
        target: &str,
        headers: &BTreeMap<String, String>,
    ) -> String {
        let get = |name: &str| headers.get(name).cloned().unwrap_or_default();
        let version = headers.get("x-ms-version");
        let is_old = version.is_some_and(|version| version.as_str() < "2015-02-21");
        let length = Some(get("content-length")).filter(|length| length != "0" || is_old);
        let mut text = format!(
            "{method}\n{}\n{}\n{}\n{}\n{}\n\n{}\n{}\n{}\n{}\n{}\n",
            get("content-encoding"),
            get("content-language"),
            length.unwrap_or_default(),
            get("content-md5"),
            get("content-type"),
            get("if-modified-since"),
            get("if-match"),
            get("if-none-match"),
            get("if-unmodified-since"),
            get("range"),
        );
        for (name, value) in headers.iter().filter(|(name, _)| name.starts_with("x-ms-")) {
            text += &format!("{name}:{value}\n");
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        text += &format!("/{0}/{0}{path}", self.account);
        let mut pairs: Vec<&str> = query.split('&').filter(|pair| !pair.is_empty()).collect();
        pairs.sort_unstable();
        for pair in pairs {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            text += &format!("\n{name}:{value}");
        }
        let key = BASE64_STANDARD.decode(&self.key).unwrap();
        let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
        let signature = BASE64_STANDARD.encode(hmac::sign(&key, text.as_bytes()));
        format!("SharedKey {}:{signature}", self.account)
    }
}

impl Answer {
    pub fn outcome(&self) -> (u16, &str) {
        (self.status, &self.code)
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    pub fn assert(&self, status: u16) -> &Self {
        assert_eq!(self.status, status, "{} {}", self.code, self.text());
        self
    }

    #[track_caller]
    pub fn assert_refused(&self, status: u16, code: &str) {
        assert_eq!(self.outcome(), (status, code), "{}", self.text());
    }
}
