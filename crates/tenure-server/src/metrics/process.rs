//! The metrics of the process that all programs have. They are read from `/proc`, and missing on
//! other systems.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;
use std::time::SystemTime;

use super::{Exposition, Sample, unix_seconds};

/// The unit of processor times in `/proc`, in every Linux that has this interface.
const TICKS_PER_SECOND: f64 = 100.0;

pub(crate) fn expose(out: &mut Exposition) {
    let mut gauge = |name, help, value: Option<f64>| {
        out.gauge(name, help, value.map(Sample::of));
    };
    gauge(
        "process_start_time_seconds",
        "The time at which the process started, in seconds since 1970.",
        *START_TIME,
    );
    gauge(
        "process_resident_memory_bytes",
        "The memory of the process.",
        resident_bytes(),
    );
    gauge(
        "process_open_fds",
        "The open files of the process.",
        count(Path::new("/proc/self/fd")),
    );
    gauge(
        "process_max_fds",
        "The limit of process_open_fds.",
        max_files(),
    );
    out.counter(
        "process_cpu_seconds_total",
        "The processor time of the process.",
        cpu_seconds().map(Sample::of),
    );
}

/// It is computed once, because it would differ by milliseconds each time, and alerts take a change
/// for a restart. `/proc/stat`, which has the time of the boot, is not there under `ProcSubset=pid`.
static START_TIME: LazyLock<Option<f64>> = LazyLock::new(|| {
    let age = since_boot()? - ticks(&own_stat()?, 22)? / TICKS_PER_SECOND;
    Some(unix_seconds(SystemTime::now()) - age)
});

#[cfg(target_os = "linux")]
fn since_boot() -> Option<f64> {
    use nix::time::{ClockId, clock_gettime};
    let time = clock_gettime(ClockId::CLOCK_BOOTTIME).ok()?;
    Some(std::time::Duration::from(time).as_secs_f64())
}

#[cfg(not(target_os = "linux"))]
const fn since_boot() -> Option<f64> {
    None
}

fn cpu_seconds() -> Option<f64> {
    let stat = own_stat()?;
    Some((ticks(&stat, 14)? + ticks(&stat, 15)?) / TICKS_PER_SECOND)
}

fn own_stat() -> Option<String> {
    fs::read_to_string("/proc/self/stat").ok()
}

/// Returns a field of `/proc/self/stat`. The fields are counted from 1, as in proc(5).
fn ticks(stat: &str, field: usize) -> Option<f64> {
    // The second field is the name of the program, which may contain blanks and parentheses.
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(field - 3)?.parse().ok()
}

fn resident_bytes() -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    Some(number_after(&status, "VmRSS:")? * 1024.0)
}

fn max_files() -> Option<f64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    number_after(&limits, "Max open files")
}

#[allow(clippy::cast_precision_loss)] // No process has 2^52 files.
fn count(folder: &Path) -> Option<f64> {
    // The listing has its own folder, too.
    Some(fs::read_dir(folder).ok()?.count().saturating_sub(1) as f64)
}

/// Returns the number after the word at the beginning of a line.
fn number_after(text: &str, word: &str) -> Option<f64> {
    let mut lines = text.lines();
    let rest = lines.find_map(|line| line.strip_prefix(word))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_this_process() {
        let now = unix_seconds(SystemTime::now());
        let started = START_TIME.unwrap();
        assert!(
            started <= now + 0.1 && started > now - 3_600.0,
            "{started} {now}"
        );
        assert!(resident_bytes().unwrap() > 1e6);
        let files = Path::new("/proc/self/fd");
        let before = count(files).unwrap();
        let open: Vec<_> = (0..50).map(|_| fs::File::open("/proc/stat")).collect();
        assert!(count(files).unwrap() >= before + 25.0);
        drop(open);
        assert!(max_files().unwrap() >= before);
        let began = cpu_seconds().unwrap();
        while cpu_seconds().unwrap() < began + 0.02 {}
    }

    #[test]
    fn a_program_name_with_blanks_does_not_move_the_fields() {
        let fields: Vec<String> = (3..=30).map(|field: u32| field.to_string()).collect();
        let stat = format!("17 (a b) c) {}", fields.join(" "));
        assert_eq!(
            (ticks(&stat, 14), ticks(&stat, 22)),
            (Some(14.0), Some(22.0))
        );
    }
}
