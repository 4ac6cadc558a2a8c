//! Certificates of the engine that the running servers do not accept.

#[path = "../../crates/tenure-server/tests/common/authority.rs"]
#[allow(dead_code, unreachable_pub)] // Other tests use the rest.
mod authority;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rcgen::{ExtendedKeyUsagePurpose, SanType};
use tenure_tests::cluster::{Cluster, Settings};
use tenure_tests::engine::url_file;
use tenure_tests::wait_for;

use self::authority::{Authority, HOUR, set_validity};
use super::postgres::END_SESSIONS;
use super::wrong::refuse;
use super::{Bench, DEFAULT};

const EXPIRED: &str = "has expired: renew it there";

const UNKNOWN: &str = "is not signed by a known authority";

/// Writes a certificate for this machine that ends this number of seconds from now, and its key.
/// Returns the files.
fn issue(authority: &Authority, folder: &Path, end: i64) -> [PathBuf; 2] {
    let issued = authority.issue_with(|params| {
        set_validity(params, -2 * HOUR, end);
        // etcd uses its certificate as a client, too.
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        params.subject_alt_names = vec![SanType::IpAddress([127, 0, 0, 1].into())];
    });
    let write = |name: &str, text: String| {
        let file = folder.join(name);
        fs::write(&file, text).expect("a file");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("a mode");
        file
    };
    [
        write("server.crt", issued.certificate.pem()),
        write("server.key", issued.key.serialize_pem()),
    ]
}

#[test]
fn servers_that_refuse_the_certificate_of_etcd_say_why_and_go_on_when_it_is_renewed() {
    let test = "servers_that_refuse_the_certificate_of_etcd_say_why_and_go_on_when_it_is_renewed";
    let folder = tempfile::tempdir().expect("a folder");
    let known = folder.path().join("known.pem");
    let [first, second] = ["first", "second"].map(Authority::new);
    fs::write(&known, &first.pem).expect("a file");
    let renew = |authority: &Authority, end| issue(authority, folder.path(), end);
    let [certificate, key] = renew(&first, HOUR).map(|file| file.display().to_string());
    let mut settings = Settings::short(DEFAULT);
    settings.options = ["--cert-file", &certificate, "--key-file", &key]
        .map(str::to_owned)
        .into();
    settings.parameters = format!("ca_file={}", known.display());
    let Some(mut bench) = Bench::start(test, settings) else {
        return;
    };
    // A connection keeps the certificate with which it began.
    let restart = |cluster: &mut Cluster| {
        cluster.etcd_mut().kill(0);
        cluster.etcd_mut().spawn(0);
        cluster.etcd_mut().wait_until_ready(0);
    };
    let mut used = refuse(
        &mut bench,
        &format!("the certificate of etcd {EXPIRED}"),
        |cluster| {
            renew(&first, -HOUR);
            restart(cluster);
        },
        |_| {
            renew(&first, HOUR);
        },
    );
    used += refuse(
        &mut bench,
        &format!("the certificate of etcd {UNKNOWN}"),
        |cluster| {
            renew(&second, HOUR);
            restart(cluster);
        },
        |_| fs::write(&known, &second.pem).expect("a file"),
    );
    assert!(used <= 2, "{used} generations");
    let Bench { load, mut cluster } = bench;
    load.verify_answers(&cluster);
    cluster.verify_answers();
    // The judge of the chain reads etcd without TLS.
    cluster.etcd_mut().set_options(&[]);
    restart(&mut cluster);
    let _ = cluster.audit("c");
}

#[test]
fn servers_that_refuse_the_certificate_of_postgresql_say_why_and_go_on_when_it_is_renewed() {
    let test =
        "servers_that_refuse_the_certificate_of_postgresql_say_why_and_go_on_when_it_is_renewed";
    let folder = tempfile::tempdir().expect("a folder");
    let known = folder.path().join("known.pem");
    let [first, second] = ["first", "second"].map(Authority::new);
    fs::write(&known, &first.pem).expect("a file");
    let mut settings = Settings::short(2 * DEFAULT).over_postgres();
    settings.parameters = format!("sslrootcert={}", known.display());
    let Some(mut cluster) = Cluster::prepare(test, settings) else {
        return;
    };
    let renew = |cluster: &mut Cluster, authority: &Authority, end| {
        let primary = &cluster.databases().primary;
        for file in issue(authority, &primary.folder().join("data"), end) {
            primary.own(&file);
        }
        primary.query("select pg_reload_conf()");
    };
    renew(&mut cluster, &first, HOUR);
    cluster
        .databases()
        .primary
        .query("alter system set ssl = on");
    cluster.databases().primary.query("select pg_reload_conf()");
    wait_for("TLS", || {
        let is_on = cluster.databases().primary.query("show ssl") == "on";
        is_on.then_some(())
    });
    for server in &cluster.servers {
        let file = url_file(server.config());
        let text = fs::read_to_string(&file).expect("a file");
        fs::write(&file, text + "&sslmode=verify-full").expect("a file");
    }
    cluster.run();
    let mut bench = Bench::over(cluster);
    // PostgreSQL reads the files a moment after it was asked to, and a session keeps the certificate
    // with which it began.
    let replace = |cluster: &mut Cluster, authority: &Authority, end, line: &str| {
        renew(cluster, authority, end);
        wait_for(line, || {
            cluster.databases().primary.query(END_SESSIONS);
            let says = cluster.servers.iter().all(|it| it.log().contains(line));
            says.then_some(())
        });
    };
    let line = format!("the certificate of PostgreSQL {EXPIRED}");
    let mut used = refuse(
        &mut bench,
        &line,
        |cluster| replace(cluster, &first, -HOUR, &line),
        |cluster| renew(cluster, &first, HOUR),
    );
    let line = format!("the certificate of PostgreSQL {UNKNOWN}");
    used += refuse(
        &mut bench,
        &line,
        |cluster| replace(cluster, &second, HOUR, &line),
        |_| fs::write(&known, &second.pem).expect("a file"),
    );
    assert!(used <= 2, "{used} generations");
    bench.verify_without_terms();
}
