//! The service that a cluster keeps its log in: members of etcd, PostgreSQL, or a bucket.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::bucket::{self, Bucket, BucketServer};
use crate::chain::{self, Link};
use crate::cluster::Settings;
use crate::etcd::Etcd;
use crate::postgres::Postgres;
use crate::wait_for;

/// The kinds of engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Members of etcd.
    Etcd,
    /// PostgreSQL: a primary, and a synchronous standby if there are two members.
    Postgres,
    /// A bucket of this server.
    Bucket(BucketServer),
}

/// The engine of a cluster.
#[derive(Debug)]
pub enum Engine {
    /// Members of etcd.
    Etcd(Etcd),
    /// PostgreSQL.
    Postgres(Databases),
    /// A bucket.
    Bucket(Box<Bucket>),
}

/// A primary of PostgreSQL, and perhaps a synchronous standby.
#[derive(Debug)]
pub struct Databases {
    /// The server that is the primary at first.
    pub primary: Postgres,
    /// The standby.
    pub standby: Option<Postgres>,
}

/// The first password of the user `tenure`.
pub const PASSWORD: &str = "first";

/// Writes down every value of a slot that is committed. A promoted standby has what the former primary
/// wrote down.
const NOTES: &str = "
    create schema notes;
    create table notes.slots (id bigserial primary key, key text, value bytea);
    create function notes.slot() returns trigger language plpgsql security definer as $$ begin
        insert into notes.slots (key, value) values (new.key, new.value);
        return null;
    end $$;
    create trigger first after insert on tenure.register for each row
        execute function notes.slot();
    create trigger next after update on tenure.register for each row
        when (old.value is distinct from new.value) execute function notes.slot();
    insert into notes.slots (key, value) select key, value from tenure.register
        order by length(key), key;
";

impl Engine {
    /// Starts the engine; `None` if the test cannot run.
    ///
    /// # Panics
    ///
    /// If it does not start.
    #[must_use]
    pub fn start(test: &str, settings: &Settings) -> Option<Self> {
        match settings.kind {
            Kind::Etcd => {
                let options: Vec<_> = settings.options.iter().map(String::as_str).collect();
                let etcd = match settings.hosts.as_slice() {
                    [] => Etcd::start_with(test, settings.members, &options),
                    hosts => Etcd::start_on(test, hosts, &options),
                };
                etcd.map(Self::Etcd)
            }
            Kind::Postgres => Databases::start(test, settings.members).map(Self::Postgres),
            Kind::Bucket(server) => {
                Bucket::start(test, server).map(|it| Self::Bucket(Box::new(it)))
            }
        }
    }

    /// The addresses of the members.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        match self {
            Self::Etcd(etcd) => (0..etcd.endpoints().len())
                .map(|member| etcd.address(member))
                .collect(),
            Self::Postgres(databases) => (databases.all())
                .map(|it| SocketAddr::from((Ipv4Addr::LOCALHOST, it.port())))
                .collect(),
            Self::Bucket(bucket) => vec![bucket.address()],
        }
    }

    /// The variables of the environment with which a server has access.
    #[must_use]
    pub fn environment(&self) -> Vec<(String, PathBuf)> {
        match self {
            Self::Etcd(_) | Self::Postgres(_) => Vec::new(),
            Self::Bucket(_) => (bucket::ACCESS.iter())
                .map(|(name, value)| ((*name).to_owned(), value.into()))
                .collect(),
        }
    }

    /// The line of the configuration of a server that names its home, which it reaches at these
    /// addresses. A file for it is `file` with another extension.
    ///
    /// # Panics
    ///
    /// If the file cannot be written.
    #[must_use]
    pub fn home(&self, addresses: &[SocketAddr], file: &Path, settings: &Settings) -> String {
        let parameters = &settings.parameters;
        match self {
            Self::Etcd(etcd) => {
                let scheme = etcd.scheme().replace("http", "etcd");
                let (user, password) = match &settings.password_file {
                    Some(file) => ("tenure@", format!("&password_file={}", file.display())),
                    None => ("", String::new()),
                };
                let members = list(addresses);
                format!(
                    "home = \"{scheme}://{user}{members}/tenure?compact=off{password}&{parameters}\""
                )
            }
            Self::Postgres(_) => {
                let file = url_file(file);
                let url = connection_string(addresses, PASSWORD);
                fs::write(&file, format!("{url}?{parameters}")).expect("a file");
                let only_owner = fs::Permissions::from_mode(0o600);
                fs::set_permissions(&file, only_owner).expect("a mode");
                format!("home_file = \"{}\"", file.display())
            }
            Self::Bucket(_) => format!("home = \"{}\"", Bucket::home(addresses[0])),
        }
    }

    /// The entries of the cluster with this name, as the engine itself remembers them.
    ///
    /// # Panics
    ///
    /// If it does not answer.
    #[must_use]
    pub fn links(&self, cluster: &str) -> Vec<Link> {
        match self {
            Self::Etcd(etcd) => chain::links(etcd, cluster),
            Self::Postgres(databases) => databases.current().links(cluster),
            Self::Bucket(bucket) => bucket.links(cluster),
        }
    }

    /// Is called once the servers have created what they need in the engine.
    ///
    /// # Panics
    ///
    /// If the engine does not answer.
    pub fn prepare(&self) {
        if let Self::Postgres(databases) = self {
            let primary = databases.current();
            // A standby has them from its primary.
            if primary.query("select to_regclass('notes.slots') is null") == "t" {
                // The servers append meanwhile, so one of the two may have to wait for too long.
                wait_for("the notes", || primary.try_query(NOTES).ok());
            }
        }
    }
}

/// The file with the connection string of the server with this configuration file.
#[must_use]
pub fn url_file(config: &Path) -> PathBuf {
    config.with_extension("url")
}

/// The connection string of the user `tenure`.
#[must_use]
pub fn connection_string(addresses: &[SocketAddr], password: &str) -> String {
    format!("postgres://tenure:{password}@{}/postgres", list(addresses))
}

fn list(addresses: &[SocketAddr]) -> String {
    let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    addresses.join(",")
}

impl Databases {
    /// Starts this number of servers, at most two; `None` if the test cannot run.
    fn start(test: &str, members: usize) -> Option<Self> {
        let primary = Postgres::start(test, "")?;
        // The computation of SCRAM takes a build without optimization most of an attempt.
        let access = primary.folder().join("data/pg_hba.conf");
        let rules = fs::read_to_string(&access).expect("a file");
        let rule = "host all tenure 127.0.0.1/32 password\n";
        fs::write(&access, format!("{rule}{rules}")).expect("a file");
        primary.query("select pg_reload_conf()");
        primary.query(&format!(
            "create role tenure login password '{PASSWORD}';
             grant create on database postgres to tenure"
        ));
        let standby = (members > 1).then(|| {
            let standby = primary.standby("second");
            primary.query("alter system set synchronous_standby_names = 'second'");
            primary.query("select pg_reload_conf()");
            wait_for("a synchronous standby", || {
                let state = primary.query("select sync_state from pg_stat_replication");
                (state == "sync").then_some(())
            });
            standby
        });
        Some(Self { primary, standby })
    }

    fn all(&self) -> impl Iterator<Item = &Postgres> {
        [&self.primary].into_iter().chain(&self.standby)
    }

    /// The standby.
    ///
    /// # Panics
    ///
    /// If there is none.
    #[must_use]
    pub fn standby(&self) -> &Postgres {
        self.standby.as_ref().expect("a standby")
    }

    /// Disconnects the standby from its primary, which no longer waits for it: the standby lacks all
    /// commits from now on.
    ///
    /// # Panics
    ///
    /// If that fails.
    pub fn disconnect_standby(&self) {
        self.primary
            .query("alter system reset synchronous_standby_names");
        self.primary.query("select pg_reload_conf()");
        self.standby()
            .query("alter system set primary_conninfo = ''");
        self.standby().query("select pg_reload_conf()");
        wait_for("no standby", || {
            let standbys = self
                .primary
                .query("select count(*) from pg_stat_replication");
            (standbys == "0").then_some(())
        });
    }

    /// The newest primary: the standby once it was promoted.
    #[must_use]
    pub fn current(&self) -> &Postgres {
        let promoted = self.standby.as_ref().filter(|standby| {
            standby.try_query("select pg_is_in_recovery()").as_deref() == Ok("f")
        });
        promoted.unwrap_or(&self.primary)
    }
}

impl Postgres {
    /// The entries of the cluster with this name that were committed here, oldest first.
    ///
    /// # Panics
    ///
    /// If it does not answer.
    #[must_use]
    fn links(&self, cluster: &str) -> Vec<Link> {
        let prefix = format!("{cluster}/slot-");
        let rows = self.query(&format!(
            "select id || ' ' || substr(key, {}) || ' ' || encode(value, 'hex') from notes.slots
                where starts_with(key, '{prefix}') order by id",
            prefix.len() + 1
        ));
        let mut links = Vec::new();
        for row in rows.lines() {
            let mut parts = row.split(' ');
            let mut number = || parts.next()?.parse().ok();
            let (at, slot) = number().zip(number()).expect("two numbers");
            let value = parts.next().unwrap_or_default().as_bytes();
            let bytes: Vec<u8> = (value.chunks(2))
                .map(|digits| {
                    let digits = str::from_utf8(digits).expect("digits");
                    u8::from_str_radix(digits, 16).expect("a byte")
                })
                .collect();
            let link = Link::read(at, slot, &bytes);
            let link = link.unwrap_or_else(|violation| panic!("violation of safety: {violation}"));
            links.push(link);
        }
        links
    }
}
