//! The memory and the restart time of a store with a million held leases.

mod support;

use support::{Child, Kind, folder, table};

fn main() {
    support::serve_if_asked();
    let leases = if support::quick() { 10_000 } else { 1_000_000 };
    let folder = folder();
    let bytes = |server: &Child| format!("{:.0}", server.grown as f64 / leases as f64);

    let memory = bytes(&Child::start(Kind::Memory, leases, folder.path()));
    let on_disk = bytes(&Child::start(Kind::Folder, leases, folder.path()));
    // The previous store was killed, so this one loads everything from disk.
    let again = Child::start(Kind::Folder, 0, folder.path());
    let resident = format!("{:.0}", again.resident() as f64 / leases as f64);
    let row = |cells: [&str; 2]| cells.map(String::from).to_vec();
    let rows = [
        row(["", "bytes per lease"]),
        row(["in memory", &memory]),
        row(["on disk", &on_disk]),
        row([
            "on disk, all memory of the process after a start",
            &resident,
        ]),
    ];
    table(
        &format!("{leases} held leases (target: at most 510 bytes)"),
        &rows,
    );
    let seconds = again.start.as_secs_f64();
    println!("  ready after a restart in {seconds:.2} s (target: 3 s)");
}
