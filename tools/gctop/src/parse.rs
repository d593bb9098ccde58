// SPDX-License-Identifier: GPL-2.0-only
//! Parsers for the kernel's texts: pure functions. Unknown lines are skipped, because a newer driver may have more.

use std::collections::BTreeMap;

/// A core in `galcore/usage`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoreLine {
    /// Its index.
    pub place: usize,
    /// Its engines.
    pub kind: String,
    /// Nanoseconds: busy, on, off, at the lowest clock, and suspended.
    pub times: [u64; 5],
}

/// `galcore/usage`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time of the report, in nanoseconds.
    pub time: u64,
    /// The cores, by index.
    pub cores: Vec<CoreLine>,
    /// Number of jobs submitted, by process id.
    pub jobs: BTreeMap<u32, u64>,
    /// Nanoseconds that a core was busy for a client, by the driver's client id and the core's index.
    pub busy: BTreeMap<(u64, usize), u64>,
}

/// The numbers in a text.
fn numbers(text: &str) -> Vec<u64> {
    let words = text.split(|letter: char| !letter.is_ascii_digit());
    words.filter_map(|word| word.parse().ok()).collect()
}

/// Parses `galcore/usage`.
pub fn usage(text: &str) -> Usage {
    let mut usage = Usage::default();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
        match words.first() {
            Some(&"time") => usage.time = number(1).unwrap_or(0),
            Some(&"core") if words.len() >= 8 => usage.cores.push(CoreLine {
                place: number(1).unwrap_or(0) as usize,
                kind: words[2].to_string(),
                times: std::array::from_fn(|which| number(3 + which).unwrap_or(0)),
            }),
            Some(&"process") => {
                if let (Some(id), Some(jobs)) = (number(1), number(5)) {
                    *usage.jobs.entry(id as u32).or_default() += jobs;
                }
                if let (Some(number), Some(place), Some(busy)) = (number(2), number(3), number(4)) {
                    usage.busy.insert((number, place as usize), busy);
                }
            }
            _ => {}
        }
    }
    usage
}

/// Parses `galcore/resets`: resets of each core, by index, and resets caused by each process, by process id.
pub fn resets(text: &str) -> (BTreeMap<usize, u64>, BTreeMap<u32, u64>) {
    let (mut cores, mut processes) = (BTreeMap::new(), BTreeMap::new());
    for line in text.lines() {
        match (line.split_whitespace().next(), &numbers(line)[..]) {
            (Some("core"), &[place, count]) => drop(cores.insert(place as usize, count)),
            (Some("process"), &[id, guilty, ..]) => drop(processes.insert(id as u32, guilty)),
            _ => {}
        }
    }
    (cores, processes)
}

/// Parses `gc/info`: the vendor's number, model, and revision of each core.
pub fn info(text: &str) -> Vec<(u64, String, String)> {
    let mut cores: Vec<(u64, String, String)> = Vec::new();
    for line in text.lines() {
        let Some((key, value)) = line.split_once(':') else {
            continue;
        };
        let value = value.trim().to_string();
        match (key.trim(), cores.last_mut()) {
            ("gpu", _) => cores.push((value.parse().unwrap_or(0), String::new(), String::new())),
            ("model", Some(core)) => core.1 = value,
            ("revision", Some(core)) => core.2 = value,
            _ => {}
        }
    }
    cores
}

/// Parses `gc/clk`: the core clock and the shader clock in Hz, by the vendor's core number.
pub fn clocks(text: &str) -> BTreeMap<u64, [Option<u64>; 2]> {
    let mut clocks: BTreeMap<u64, [Option<u64>; 2]> = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("gpu")) {
        if let [core, rate] = numbers(line)[..] {
            let which = usize::from(line.contains(" sh "));
            clocks.entry(core).or_default()[which] = Some(rate);
        }
    }
    clocks
}

/// Parses `/proc/driver/gc`. Returns KiB: size of the pool, used part of it, used contiguous memory, and used virtual
/// memory.
pub fn memory(text: &str) -> Option<[u64; 4]> {
    let of = |start: &str| {
        let line = text.lines().find(|line| line.starts_with(start))?;
        Some(numbers(line))
    };
    match (
        &of("Total reserved video memory:")?[..],
        &of("Used video mem:")?[..],
    ) {
        (&[reserved], &[pool, contiguous, scattered]) => {
            Some([reserved, pool, contiguous, scattered])
        }
        _ => None,
    }
}

/// A client, from the fdinfo of one of its files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientInfo {
    /// The driver's client id.
    pub id: u64,
    /// Busy time of its jobs in nanoseconds, by engine.
    pub engines: BTreeMap<String, u64>,
    /// Memory in KiB, by region.
    pub memory: BTreeMap<String, u64>,
}

/// Parses fdinfo. `None` if the file is not one of this driver.
pub fn fdinfo(text: &str) -> Option<ClientInfo> {
    let keys: BTreeMap<&str, &str> = text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(key, value)| (key, value.trim()))
        .collect();
    if keys.get("drm-driver") != Some(&"galcore") {
        return None;
    }
    let first = |value: &str| numbers(value).first().copied().unwrap_or(0);
    let mut client = ClientInfo {
        id: first(keys.get("drm-client-id")?),
        ..ClientInfo::default()
    };
    for (key, value) in keys {
        if let Some(region) = key.strip_prefix("drm-resident-") {
            client.memory.insert(region.to_string(), first(value));
        } else if let Some(engine) = key.strip_prefix("drm-engine-") {
            if !engine.starts_with("capacity-") {
                client.engines.insert(engine.to_string(), first(value));
            }
        }
    }
    Some(client)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_of_two_cores() {
        let found = usage(
            "time 5000\ncore 0 3d 100 200 300 0 0\ncore 1 2d 1 2 3 4 5\nprocess 77 3 0 50 6\nprocess 77 3 1 1 2\nnew 1\n",
        );
        assert_eq!(found.time, 5000);
        assert_eq!(found.cores.len(), 2);
        assert_eq!(found.cores[1].times, [1, 2, 3, 4, 5]);
        assert_eq!(found.jobs[&77], 8);
        assert_eq!(found.busy, BTreeMap::from([((3, 0), 50), ((3, 1), 1)]));
    }

    #[test]
    fn resets_of_cores_and_processes() {
        let (cores, processes) = resets("core 0 3\ncore 1 0\nprocess 12 1 2 7\nuser 1000 2\n");
        assert_eq!((cores[&0], cores[&1], processes[&12]), (3, 0, 1));
    }

    #[test]
    fn chips_and_clocks() {
        let text = "gpu      : 0\nmodel    : 2000\nrevision : 5108\n\ngpu      : 8\nmodel    :  320\nrevision : 5007\n\n";
        let found = info(text);
        assert_eq!(found[0], (0, "2000".into(), "5108".into()));
        assert_eq!(found[1], (8, "320".into(), "5007".into()));
        let found = clocks("gpu0 mc clock: 528000000 HZ.\ngpu0 sh clock: 594000000 HZ.\n");
        assert_eq!(found[&0], [Some(528_000_000), Some(594_000_000)]);
    }

    #[test]
    fn memory_of_proc() {
        let text = "x\nTotal reserved video memory: 131072 KB\nUsed video mem: 128 KB\tcontiguous: 3000 KB\tvirtual: 4 KB\n";
        assert_eq!(memory(text), Some([131_072, 128, 3000, 4]));
        assert_eq!(memory("nothing"), None);
    }

    #[test]
    fn files_of_others_are_left_out() {
        assert_eq!(fdinfo("pos:\t0\nflags:\t02\n"), None);
        assert_eq!(fdinfo("drm-driver:\tetnaviv\ndrm-client-id:\t1\n"), None);
        let text = "pos:\t0\ndrm-driver:\tgalcore\ndrm-client-id:\t7\ndrm-engine-3d:\t12 ns\n\
                    drm-engine-capacity-3d:\t2\ndrm-total-pool:\t9 KiB\ndrm-resident-pool:\t8 KiB\n";
        let found = fdinfo(text).unwrap();
        assert_eq!((found.id, found.engines["3d"]), (7, 12));
        assert_eq!((found.engines.len(), found.memory["pool"]), (1, 8));
    }
}
