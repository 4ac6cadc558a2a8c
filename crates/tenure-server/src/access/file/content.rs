//! The tables in the text of an access file, and their checks.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use chrono::{DateTime, Utc};
use serde::Deserialize;
use tenure_core::{Name, file_path};
use toml::Spanned;
use toml::value::Datetime;

use super::{
    AccessFile, IdentityGrant, IdentityPattern, IdentityRule, ListedPrincipal, ListedSecret,
    MAX_SECRETS, NamespaceRule, check_principal_name,
};
use crate::access::certificates::{CERTIFICATE, SPIFFE};
use crate::access::jwt::{Issuer, KUBERNETES, KeySource};
use crate::access::rights::{AccessGrant, AccessScope, Principal, Role};

/// The version of the format.
const VERSION: u32 = 1;

/// A wrong value, and its position in the text.
pub(super) struct Wrong {
    pub(super) offset: usize,
    pub(super) problem: String,
}

impl Wrong {
    fn new<T: std::fmt::Display>(
        key: &str,
        value: &Spanned<T>,
        reason: impl std::fmt::Display,
    ) -> Self {
        Self {
            offset: value.span().start,
            problem: format!(
                "{key} = {:.200}: {reason}",
                format!("{:?}", value.get_ref().to_string())
            ),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Content {
    version: Spanned<u32>,
    #[serde(default)]
    principal: Vec<PrincipalTable>,
    kubernetes: Option<KubernetesTable>,
    certificates: Option<CertificatesTable>,
    #[serde(default)]
    issuer: Vec<IssuerTable>,
    #[serde(default, rename = "match")]
    identity_rules: Vec<MatchTable>,
    #[serde(default)]
    deny: Vec<DenyTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PrincipalTable {
    name: Spanned<String>,
    #[serde(default)]
    grants: Vec<GrantTable>,
    #[serde(default)]
    secret: Vec<SecretTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SecretTable {
    id: Spanned<String>,
    sha256: Spanned<String>,
    created: Option<Spanned<Datetime>>,
    expires: Option<Spanned<Datetime>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GrantTable {
    role: Spanned<String>,
    namespace: Option<Spanned<String>>,
    prefix: Option<Spanned<String>>,
}

/// The service accounts of the cluster in which the store runs.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KubernetesTable {
    audience: Spanned<String>,
    issuer: Option<Spanned<String>>,
}

/// The authorities of client certificates.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CertificatesTable {
    ca_file: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct IssuerTable {
    name: Spanned<String>,
    issuer: Spanned<String>,
    audience: Spanned<String>,
    key_set_file: Option<Spanned<String>>,
    key_set_url: Option<Spanned<String>>,
    ca_file: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MatchTable {
    identity: Spanned<String>,
    grants: Vec<GrantTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DenyTable {
    identity: Spanned<String>,
}

impl Content {
    pub(super) fn check(&self) -> Result<AccessFile, Wrong> {
        if *self.version.get_ref() != VERSION {
            let reason = format!("this version of tenure reads {VERSION}");
            return Err(Wrong::new("version", &self.version, reason));
        }
        let mut names = HashSet::new();
        let mut ids = HashMap::new();
        let mut principals = Vec::with_capacity(self.principal.len());
        for table in &self.principal {
            let listed = table.check()?;
            if !names.insert(Arc::clone(&listed.principal.name)) {
                let reason = "a principal has this name already; names are unique";
                return Err(Wrong::new("name", &table.name, reason));
            }
            for (secret, listed_secret) in table.secret.iter().zip(&listed.secrets) {
                let owner = Arc::clone(&listed.principal.name);
                if let Some(owner) = ids.insert(listed_secret.id, owner) {
                    let reason = format!("{owner:?} has a token with this id; ids are unique");
                    return Err(Wrong::new("id", &secret.id, reason));
                }
            }
            principals.push(listed);
        }
        let issuers = self.issuers()?;
        let mut authorities: Vec<&str> = issuers.iter().map(|issuer| &*issuer.name).collect();
        if let Some(table) = &self.certificates {
            path("ca_file", &table.ca_file)?;
            authorities.extend([SPIFFE, CERTIFICATE]);
        }
        let identity_rules = self
            .identity_rules
            .iter()
            .map(|table| table.check(&authorities));
        let denied = self
            .deny
            .iter()
            .map(|table| pattern(&table.identity, &authorities));
        Ok(AccessFile {
            principals,
            certificates: None,
            identity_rules: identity_rules.collect::<Result<_, _>>()?,
            denied: denied.collect::<Result<_, _>>()?,
            issuers,
        })
    }

    /// Returns the file with the authorities of client certificates, and the position of its name
    /// in the text.
    pub(super) fn ca_file(&self) -> Option<(&str, usize)> {
        let table = self.certificates.as_ref()?;
        Some((table.ca_file.get_ref(), table.ca_file.span().start))
    }

    fn issuers(&self) -> Result<Vec<Issuer>, Wrong> {
        let kubernetes = self.kubernetes.as_ref().map(|table| {
            Ok(Issuer {
                name: KUBERNETES.into(),
                issuer: table
                    .issuer
                    .as_ref()
                    .map(|issuer| filled("issuer", issuer))
                    .transpose()?,
                audience: filled("audience", &table.audience)?,
                keys: KeySource::Kubernetes,
            })
        });
        let mut issuers: Vec<Issuer> = kubernetes.transpose()?.into_iter().collect();
        for table in &self.issuer {
            let issuer = table.check()?;
            if issuers.iter().any(|known| known.name == issuer.name) {
                let reason = "an [[issuer]] has this name already; names are unique";
                return Err(Wrong::new("name", &table.name, reason));
            }
            issuers.push(issuer);
        }
        Ok(issuers)
    }
}

impl PrincipalTable {
    fn check(&self) -> Result<ListedPrincipal, Wrong> {
        check_principal_name(self.name.get_ref())
            .map_err(|reason| Wrong::new("name", &self.name, reason))?;
        if let Some(third) = self.secret.get(MAX_SECRETS) {
            let reason = format!(
                "a principal has at most {MAX_SECRETS} tokens, the present one and its successor"
            );
            return Err(Wrong::new("id", &third.id, reason));
        }
        let grants = self.grants.iter().map(|table| {
            let (role, namespace, prefix) = table.check()?;
            let namespace = match namespace {
                NamespaceRule::All => None,
                NamespaceRule::One(name) => Some(name),
                NamespaceRule::OfIdentity => {
                    let value = table.namespace.as_ref().unwrap_or(&table.role);
                    let reason = "only a [[match]] may use $namespace; write a name or \"*\"";
                    return Err(Wrong::new("namespace", value, reason));
                }
            };
            let scope = AccessScope::new(namespace, prefix);
            Ok(AccessGrant { role, scope })
        });
        Ok(ListedPrincipal {
            principal: Arc::new(Principal {
                name: self.name.get_ref().as_str().into(),
                grants: grants.collect::<Result<_, _>>()?,
            }),
            secrets: self
                .secret
                .iter()
                .map(SecretTable::check)
                .collect::<Result<_, _>>()?,
        })
    }
}

impl SecretTable {
    fn check(&self) -> Result<ListedSecret, Wrong> {
        let id = self.id.get_ref().parse();
        let hash = self.sha256.get_ref().parse();
        Ok(ListedSecret {
            id: id.map_err(|reason: String| Wrong::new("id", &self.id, reason))?,
            hash: hash.map_err(|reason: String| Wrong::new("sha256", &self.sha256, reason))?,
            created: time("created", self.created.as_ref())?,
            expires: time("expires", self.expires.as_ref())?,
        })
    }
}

impl GrantTable {
    fn check(&self) -> Result<(Role, NamespaceRule, &str), Wrong> {
        let role: Role = self
            .role
            .get_ref()
            .parse()
            .map_err(|reason: String| Wrong::new("role", &self.role, reason))?;
        let prefix = match &self.prefix {
            None => "",
            Some(prefix) => {
                Name::check(prefix.get_ref())
                    .map_err(|error| Wrong::new("prefix", prefix, error))?;
                prefix.get_ref()
            }
        };
        let namespace = match &self.namespace {
            None if role == Role::Metrics => NamespaceRule::All,
            None => {
                let reason = "the grant has no namespace; write a name, or \"*\" for all of them";
                return Err(Wrong::new("role", &self.role, reason));
            }
            Some(namespace) => match namespace.get_ref().as_str() {
                "*" => NamespaceRule::All,
                "$namespace" => NamespaceRule::OfIdentity,
                name => NamespaceRule::One(name.parse().map_err(|error| {
                    Wrong::new("namespace", namespace, format!("{error}; or write \"*\""))
                })?),
            },
        };
        if role == Role::Metrics && (namespace != NamespaceRule::All || !prefix.is_empty()) {
            let reason =
                "metrics are of the whole store; give the grant no namespace and no prefix";
            return Err(Wrong::new("role", &self.role, reason));
        }
        Ok((role, namespace, prefix))
    }
}

impl IssuerTable {
    fn check(&self) -> Result<Issuer, Wrong> {
        let name = self.name.get_ref();
        let is_plain =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let is_reserved = matches!(name.as_str(), KUBERNETES | "azure" | SPIFFE | CERTIFICATE);
        if name.is_empty() || !name.bytes().all(is_plain) || is_reserved {
            let reason =
                "a name has characters of a-z, 0-9 and -; k8s, azure, spiffe and cert are reserved";
            return Err(Wrong::new("name", &self.name, reason));
        }
        let ca_file = self.ca_file.as_ref().map(|file| path("ca_file", file));
        let ca_file = ca_file.transpose()?;
        let keys = match (&self.key_set_file, &self.key_set_url) {
            (Some(file), None) => KeySource::File(path("key_set_file", file)?),
            (None, Some(url)) if url.get_ref().starts_with("https://") => {
                KeySource::Url(url.get_ref().clone(), ca_file)
            }
            (None, Some(url)) => {
                let reason = "write an https address: whoever changes the keys can sign in";
                return Err(Wrong::new("key_set_url", url, reason));
            }
            _ => {
                let reason = "the [[issuer]] needs key_set_file or key_set_url, and not both";
                return Err(Wrong::new("name", &self.name, reason));
            }
        };
        Ok(Issuer {
            name: name.clone(),
            issuer: Some(filled("issuer", &self.issuer)?),
            audience: filled("audience", &self.audience)?,
            keys,
        })
    }
}

fn filled(key: &str, written: &Spanned<String>) -> Result<String, Wrong> {
    match written.get_ref().as_str() {
        "" => Err(Wrong::new(key, written, "write a text that is not empty")),
        text => Ok(text.to_owned()),
    }
}

fn path(key: &str, written: &Spanned<String>) -> Result<PathBuf, Wrong> {
    let path = filled(key, written)?;
    file_path::check(&path).map_err(|error| Wrong::new(key, written, error))?;
    Ok(path.into())
}

impl MatchTable {
    fn check(&self, authorities: &[&str]) -> Result<IdentityRule, Wrong> {
        let identity = pattern(&self.identity, authorities)?;
        let grants = self.grants.iter().map(|table| {
            let (role, namespace, prefix) = table.check()?;
            if namespace == NamespaceRule::OfIdentity && !identity.text.starts_with("k8s:") {
                let value = table.namespace.as_ref().unwrap_or(&table.role);
                let reason = "only identities that begin with k8s: have a namespace";
                return Err(Wrong::new("namespace", value, reason));
            }
            let prefix = prefix.into();
            Ok(IdentityGrant {
                role,
                namespace,
                prefix,
            })
        });
        let grants = grants.collect::<Result<_, _>>()?;
        Ok(IdentityRule { identity, grants })
    }
}

/// Parses a pattern of identities that these authorities vouch for.
fn pattern(written: &Spanned<String>, authorities: &[&str]) -> Result<IdentityPattern, Wrong> {
    let (text, is_prefix) = match written.get_ref().strip_suffix('*') {
        Some(text) => (text, true),
        None => (written.get_ref().as_str(), false),
    };
    let is_visible = text.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_visible || text.contains('*') || !text.contains(':') {
        let reason = "an identity is k8s:NAMESPACE/SERVICEACCOUNT, NAME:SUBJECT, \
                      spiffe://DOMAIN/PATH or cert:NAME, and may end with one *";
        return Err(Wrong::new("identity", written, reason));
    }
    let (name, rest) = text.split_once(':').unwrap_or((text, ""));
    if name == SPIFFE && !rest.starts_with("//") {
        let reason = "an identity of SPIFFE begins with spiffe://";
        return Err(Wrong::new("identity", written, reason));
    }
    if !authorities.contains(&name) {
        let reason = match name {
            KUBERNETES => "add a table [kubernetes] with the audience of the tokens".to_owned(),
            SPIFFE | CERTIFICATE => {
                "add a table [certificates] with the ca_file of the clients' authorities".to_owned()
            }
            name => format!("no [[issuer]] has the name {name:?}"),
        };
        return Err(Wrong::new("identity", written, reason));
    }
    Ok(IdentityPattern {
        text: text.into(),
        is_prefix,
    })
}

fn time(key: &str, written: Option<&Spanned<Datetime>>) -> Result<Option<SystemTime>, Wrong> {
    let Some(written) = written else {
        return Ok(None);
    };
    let time = DateTime::parse_from_rfc3339(&written.get_ref().to_string());
    let time = time.map_err(|_| {
        let reason = "write a date, a time and an offset, such as 2027-01-31T12:00:00Z";
        Wrong::new(key, written, reason)
    })?;
    Ok(Some(time.with_timezone(&Utc).into()))
}
