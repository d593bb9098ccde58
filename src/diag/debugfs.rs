// SPDX-License-Identifier: GPL-2.0-only

//! `/sys/kernel/debug/galcore`.
//!
//! `interface`: a line for each process that has made a request, with its ID, the generation of the
//! interface that its last file uses, the size of its requests, and the reason for this choice.
//!
//! `pending`: the numbers of released objects, processes and GPU mappings that are not free yet.
//! They soon become 0 while the GPU is idle, but not while it hangs.
//!
//! `jobs`: a line for each job under way on a core with a ring, by core, oldest first. It has the
//! core's place, the job's number, its event ID, the process ID of its author (0: the driver, or a
//! process that has ended), the pipes of its commands, the GPU addresses of its first word and of
//! the WAIT after its last, and the number of objects that it keeps.
//!
//! `resets`: a line for each core, with the number of its resets. A line for each process that was
//! affected by one, with its ID, the resets that it has and has not caused, and the jobs that it
//! has lost. A line for each user whose processes have caused resets, with the number that is not
//! forgiven.
//!
//! `usage`: the work of the cores. The current time. A line for each core, with its place, its
//! kind, and how long it was busy, on, off, at its lowest clock, and suspended since it was bound.
//! A line for each process and core that it has used, with the process ID, the driver's number of
//! the process, the core's place, how long jobs of the process have kept the core busy, and their
//! number. Times are in nanoseconds.
//!
//! `scratch`: the values for states of the default core's 3D pipe, and of its 2D pipe, without an
//! address of the client. Then the value for states with physical addresses, if the core has such
//! states.
//!
//! `ring`: the words of jobs: [`super::ring`].

use super::ring;
use crate::sys::prelude::*;
use crate::{
    client::CLIENTS,
    sys::{
        self,
        clock,
        debugfs::{
            File,
            Folder, //
        },
        decimal::Decimal, //
    }, //
};

/// All files.
static FILES: [File; 7] = [
    File::new(c"interface", show_interfaces),
    File::new(c"pending", show_pending),
    File::new(c"jobs", show_jobs),
    File::new(c"resets", show_resets),
    File::new(c"usage", show_usage),
    File::new(c"scratch", show_scratch),
    File::of_records(c"ring", ring::advance, ring::show),
];

/// The files, until this is dropped.
pub(crate) struct Files {
    _folder: Folder,
}

impl Files {
    /// Creates the files. Errors as [`Folder::new`].
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            _folder: Folder::new(c"galcore", &FILES)?,
        })
    }
}

fn show_pending(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some(clients) = CLIENTS.get() else {
        return Ok(());
    };
    let device = clients.device();
    let (objects, processes) = device.reclaimer().pending();
    let mappings = device.vm().pending();
    writeln!(f, "{objects} {processes} {mappings}")
}

fn show_jobs(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some(clients) = CLIENTS.get() else {
        return Ok(());
    };
    let mut result = Ok(());
    for core in clients.device().cores() {
        core.ring().for_each_job(|job| {
            let mut submitter = 0;
            clients.for_each_process(|leader, process| {
                if process.number() == job.process {
                    submitter = leader;
                }
            });
            let pipes = match (job.uses.pipe_3d, job.uses.pipe_2d) {
                (true, true) => "3d+2d",
                (true, false) => "3d",
                (false, true) => "2d",
                (false, false) => "none",
            };
            // Not decimal: that needs 64-bit division, which the kernel lacks on 32-bit ARM.
            let line = writeln!(
                f,
                "{} {:#x} {} {submitter} {pipes} {:#010x} {:#010x} {:#x}",
                core.index(),
                job.number,
                job.event,
                job.words.0,
                job.words.1,
                job.retired
            );
            result = result.and(line);
        });
    }
    result
}

fn show_interfaces(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some(clients) = CLIENTS.get() else {
        return Ok(());
    };
    let mut result = Ok(());
    clients.for_each_process(|leader, process| {
        if let Some((choice, bytes)) = process.interface() {
            let line = writeln!(
                f,
                "{leader} {} {bytes} {}",
                choice.format().name(),
                choice.reason.text()
            );
            result = result.and(line);
        }
    });
    result
}

fn show_resets(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some(clients) = CLIENTS.get() else {
        return Ok(());
    };
    let mut result = Ok(());
    for core in clients.device().cores() {
        let line = writeln!(f, "core {} {}", core.index(), core.ring().resets());
        result = result.and(line);
    }
    for core in clients.device().vectors() {
        let line = writeln!(f, "core {} {}", core.index(), core.queue().resets());
        result = result.and(line);
    }
    clients.for_each_process(|leader, process| {
        let counts = process.resets().counts();
        if counts.guilty == 0 && counts.innocent == 0 {
            return;
        }
        let line = writeln!(
            f,
            "process {leader} {} {} {}",
            counts.guilty, counts.innocent, counts.dropped
        );
        result = result.and(line);
    });
    clients.hangs().for_each_user(|user, owed| {
        let line = writeln!(f, "user {user} {owed}");
        result = result.and(line);
    });
    result
}

fn show_usage(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some(clients) = CLIENTS.get() else {
        return Ok(());
    };
    f.write_fmt(fmt!("time {}\n", Decimal(sys::monotonic_ns())))?;
    let device = clients.device();
    for core in device.all_cores() {
        let (busy, times) = (clock::nanoseconds(core.load().busy), core.power_times());
        let [busy, on, off] = [busy, times.on, times.off].map(Decimal);
        let [idle, suspend] = [times.idle, times.suspend].map(Decimal);
        let (place, kind) = (core.index(), core.kind().name());
        f.write_fmt(fmt!(
            "core {place} {kind} {busy} {on} {off} {idle} {suspend}\n"
        ))?;
    }
    let mut result = Ok(());
    clients.for_each_process(|leader, process| {
        let jobs = process.jobs();
        for core in device.all_cores() {
            let place = core.index();
            if jobs[place] > 0 {
                let [busy, jobs] = [process.busy_on(&core), jobs[place]].map(Decimal);
                let number = Decimal(process.number());
                let line = f.write_fmt(fmt!("process {leader} {number} {place} {busy} {jobs}\n"));
                result = result.and(line);
            }
        }
    });
    result
}

fn show_scratch(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some(clients) = CLIENTS.get() else {
        return Ok(());
    };
    let Ok(core) = clients.device().first_core() else {
        return Ok(());
    };
    let scratch = core.scratch();
    let [of_3d, of_2d] = scratch.addresses;
    match scratch.physical {
        Some(physical) => {
            let start = physical.scratch.start();
            writeln!(f, "{of_3d:#010x} {of_2d:#010x} {start:#010x}")
        }
        None => writeln!(f, "{of_3d:#010x} {of_2d:#010x}"),
    }
}
