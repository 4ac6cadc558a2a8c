//! Listeners on a system that keeps the addresses of IPv4 and IPv6 apart.

use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};

use tenure_tests::network::{Network, is_in_own_network};
use tenure_tests::ports::free_address;
use tenure_tests::process::{Process, command};
use tenure_tests::wait_for;

#[test]
fn a_listener_on_all_addresses_serves_ipv4_and_ipv6_whatever_the_system_s_setting_is() {
    let test = "a_listener_on_all_addresses_serves_ipv4_and_ipv6_whatever_the_system_s_setting_is";
    if !is_in_own_network(test, &format!("families::{test}")) {
        return;
    }
    let _network = Network::new(0);
    fs::write("/proc/sys/net/ipv6/bindv6only", "1").expect("a setting of this network");
    let ports: [u16; 4] = std::array::from_fn(|_| free_address().port());
    let all = ports.map(|port| SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)).to_string());
    let [store, metrics, status, member] = &all;
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("tenure.toml");
    fs::write(&config, format!("[metrics]\nlisten = {metrics:?}\n")).expect("a file");
    let mut serve = command(&["serve", "--home", "memory", "--allow-anonymous"]);
    serve.args(["--listen", store, "--config"]).arg(&config);
    let server = format!("http://127.0.0.1:{}", ports[0]);
    let run = ["run", "--election", "tests/job", "--server", &server];
    let mut run = command(&run);
    run.args(["--status-listen", status, "--", "sleep", "1000"]);
    let peers = format!("1=http://127.0.0.1:{}", ports[3]);
    let bully = ["run", "--election", "tests/peers", "--strategy", "bully"];
    let mut bully = command(&bully);
    bully
        .args(["--node", "1", "--peers", &peers, "--listen", member])
        .args(["--allow-anonymous", "--state-dir"])
        .arg(folder.path().join("state"))
        .args(["--", "sleep", "1000"]);
    let processes = [serve, run, bully].each_mut().map(Process::spawn);
    for port in ports {
        for ip in [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()] {
            let address = SocketAddr::new(ip, port);
            let is_served = || TcpStream::connect(address).ok().map(drop);
            let logs = processes.each_ref().map(Process::stderr);
            wait_for(&format!("a connection to {address}: {logs:?}"), is_served);
        }
    }
}
