//! Hosts on this machine with a network between them, in network namespaces of Linux.

use std::fs::{self, File};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::{Child, Command};

use crate::etcd::Host;
use crate::needs::{can_run, output_of, unshare};
use crate::wait_for;

/// The variable of a process that runs in a network of its own: a file that it creates.
const INSIDE: &str = "TENURE_TEST_NETWORK";

/// An address of the link layer that no host has.
const NOWHERE: &str = "02:00:00:00:00:99";

/// Some hosts that are connected by a bridge. This process reaches all of them.
#[derive(Debug)]
pub struct Network {
    /// The processes that keep the namespaces.
    hosts: Vec<Child>,
}

/// Whether the network delivers packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packets {
    /// The network delivers them.
    Arrive,
    /// The network loses them.
    AreLost,
}

/// Runs the test with this path in a process of its own, in a network that no other process uses.
/// Returns whether this is that process: the test continues only there.
///
/// # Panics
///
/// If the test fails there, or there is no such test.
#[must_use]
pub fn is_in_own_network(test: &str, path: &str) -> bool {
    if let Some(file) = std::env::var_os(INSIDE) {
        File::create(file).expect("a file");
        return true;
    }
    let has_namespaces = output_of(unshare().args(["ip", "link", "add", "type", "bridge"]));
    let needs = "namespaces of Linux (root), and ip";
    if !can_run(test, needs, has_namespaces.is_some()) {
        return false;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("began");
    let program = std::env::current_exe().expect("a test has a path");
    let mut inside = unshare();
    inside.arg(program).args([path, "--exact", "--nocapture"]);
    let output = inside.arg("--include-ignored").env(INSIDE, &file).output();
    let output = output.expect("a program");
    // Its standard output would look like that of a test of this process.
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
    eprint!("{stderr}");
    let stdout = stdout.replace('\n', "\n  ");
    assert!(output.status.success(), "{path} failed:\n  {stdout}");
    assert!(file.exists(), "there is no test {path}");
    false
}

impl Network {
    /// Makes this number of hosts, after [`is_in_own_network`].
    ///
    /// # Panics
    ///
    /// If that fails.
    #[must_use]
    pub fn new(hosts: usize) -> Self {
        ip("link set lo up");
        ip("link add bridge type bridge");
        ip("address add 10.0.0.1/24 dev bridge");
        ip("link set bridge up");
        let own = namespace(Path::new("/proc/self"));
        let mut network = Self { hosts: Vec::new() };
        for host in 0..hosts {
            let mut sleep = Command::new("unshare");
            sleep.args(["--net", "sleep", "infinity"]);
            let sleep = sleep.spawn().expect("unshare starts");
            let process = format!("/proc/{}", sleep.id());
            wait_for("a namespace", || {
                namespace(Path::new(&process)).filter(|it| Some(it) != own.as_ref())
            });
            ip(&format!(
                "link add h{host} type veth peer eth0 netns {}",
                sleep.id()
            ));
            ip(&format!("link set h{host} master bridge up"));
            network.hosts.push(sleep);
            network.ip(host, "link set lo up");
            network.ip(host, &format!("address add {}/24 dev eth0", address(host)));
            network.ip(host, "link set eth0 up");
        }
        network
    }

    /// The hosts, as places where members of etcd run.
    #[must_use]
    pub fn hosts(&self) -> Vec<Host> {
        let hosts = (0..self.hosts.len()).map(|host| Host {
            address: address(host),
            launcher: self.launcher(host).into(),
        });
        hosts.collect()
    }

    /// Loses the packets of one host to another one from now on, or delivers them again. Packets in
    /// the other direction still arrive.
    ///
    /// # Panics
    ///
    /// If they were not lost before, and are to be delivered again.
    pub fn set(&self, from: usize, to: usize, packets: Packets) {
        let to = address(to);
        let entry = match packets {
            Packets::Arrive => format!("neigh del {to} dev eth0"),
            Packets::AreLost => {
                format!("neigh replace {to} lladdr {NOWHERE} dev eth0 nud permanent")
            }
        };
        self.ip(from, &entry);
    }

    /// Loses all packets from and to a host from now on, or delivers them again.
    ///
    /// # Panics
    ///
    /// If that fails.
    pub fn set_host(&self, host: usize, packets: Packets) {
        let state = match packets {
            Packets::Arrive => "up",
            Packets::AreLost => "down",
        };
        ip(&format!("link set h{host} {state}"));
    }

    fn launcher(&self, host: usize) -> [String; 2] {
        let process = self.hosts[host].id();
        ["nsenter".into(), format!("--net=/proc/{process}/ns/net")]
    }

    /// Runs `ip` on a host.
    fn ip(&self, host: usize, arguments: &str) {
        let [program, namespace] = self.launcher(host);
        let mut command = Command::new(program);
        command.args([namespace.as_str(), "ip"]);
        run(command.args(arguments.split(' ')));
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for host in &mut self.hosts {
            let _ = host.kill();
            let _ = host.wait();
        }
    }
}

fn address(host: usize) -> IpAddr {
    let last = u8::try_from(host + 2).expect("few hosts");
    Ipv4Addr::new(10, 0, 0, last).into()
}

/// The name of the network namespace of a process.
fn namespace(process: &Path) -> Option<std::path::PathBuf> {
    fs::read_link(process.join("ns/net")).ok()
}

fn ip(arguments: &str) {
    run(Command::new("ip").args(arguments.split(' ')));
}

fn run(command: &mut Command) {
    let output = command.output().expect("a program");
    assert!(output.status.success(), "{command:?}: {output:?}");
}
