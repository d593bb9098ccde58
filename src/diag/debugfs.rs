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
//! `ring`: the words of jobs for the front end of each core.
//!
//! For each job that is still in the ring, oldest first, there is a line `job NUMBER of core PLACE
//! (KIND), process ID, COUNT words at ADDRESS, its own COUNT at ADDRESS, STATE`. Then come its
//! words, four a line, each line with the GPU address of its first word. `process 0` is the driver
//! itself. `galcore-info --ring` decodes the file.
//!
//! A reader does not stop the core, read its registers or delay anything. It copies pieces of
//! [`PIECE`] words, and shows a piece if its memory was not reused in between. If it was, the job's
//! lines end with `gone`. Jobs that are submitted after the reader has reached the core are not
//! shown, so the file ends. It has the words of all clients, so opening it takes `CAP_SYS_ADMIN`.

use super::with_clients;
use crate::{
    client::{
        AnyCore,
        Clients,
        CLIENTS, //
    },
    prelude::*,
    ring::Given,
    sys::{
        clock,
        decimal::Decimal, //
        text_files::{
            File,
            Mark, //
        },
    }, //
};

/// All files.
pub(crate) static FILES: [File; 7] = [
    File::new(c"interface", |f| with_clients(f, show_interfaces)),
    File::new(c"pending", |f| with_clients(f, show_pending)),
    File::new(c"jobs", |f| with_clients(f, show_jobs)),
    File::new(c"resets", |f| with_clients(f, show_resets)),
    File::new(c"usage", |f| with_clients(f, show_usage)),
    File::new(c"scratch", |f| with_clients(f, show_scratch)),
    File::of_records(c"ring", advance, show),
];

fn show_pending(f: &mut fmt::Formatter<'_>, clients: &Clients) -> fmt::Result {
    let device = clients.device();
    let (objects, processes) = device.reclaimer.pending();
    let mappings = device.vm.pending();
    writeln!(f, "{objects} {processes} {mappings}")
}

fn show_jobs(f: &mut fmt::Formatter<'_>, clients: &Clients) -> fmt::Result {
    let mut result = Ok(());
    for core in clients.device().cores() {
        core.engine().for_each_job(|job| {
            let mut submitter = 0;
            let found = clients.for_each_process(|leader, process| {
                if process.number == job.process {
                    submitter = leader;
                }
                Ok(())
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
            result = result.and(found).and(line);
        });
    }
    result
}

fn show_interfaces(f: &mut fmt::Formatter<'_>, clients: &Clients) -> fmt::Result {
    clients.for_each_process(|leader, process| {
        let Some((choice, bytes)) = process.interface() else {
            return Ok(());
        };
        writeln!(
            f,
            "{leader} {} {bytes} {}",
            choice.format().name(),
            choice.reason.text()
        )
    })
}

fn show_resets(f: &mut fmt::Formatter<'_>, clients: &Clients) -> fmt::Result {
    for core in clients.device().cores() {
        writeln!(f, "core {} {}", core.index(), core.engine().resets())?;
    }
    for core in clients.device().vectors() {
        writeln!(f, "core {} {}", core.index(), core.engine().resets())?;
    }
    clients.for_each_process(|leader, process| {
        let counts = process.resets.counts();
        if counts.guilty == 0 && counts.innocent == 0 {
            return Ok(());
        }
        writeln!(
            f,
            "process {leader} {} {} {}",
            counts.guilty, counts.innocent, counts.dropped
        )
    })?;
    let mut result = Ok(());
    clients.hangs.for_each_user(|user, owed| {
        let line = writeln!(f, "user {user} {owed}");
        result = result.and(line);
    });
    result
}

fn show_usage(f: &mut fmt::Formatter<'_>, clients: &Clients) -> fmt::Result {
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
    clients.for_each_process(|leader, process| {
        let jobs = process.jobs();
        for core in device.all_cores() {
            let place = core.index();
            if jobs[place] > 0 {
                let [busy, jobs] = [process.busy_on(&core), jobs[place]].map(Decimal);
                let number = Decimal(process.number);
                f.write_fmt(fmt!("process {leader} {number} {place} {busy} {jobs}\n"))?;
            }
        }
        Ok(())
    })
}

fn show_scratch(f: &mut fmt::Formatter<'_>, clients: &Clients) -> fmt::Result {
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

/// Words in one record of the file.
const PIECE: usize = 32;

/// The core at a place.
fn core_at(place: u64) -> Option<AnyCore> {
    // CAST: a place is small.
    CLIENTS.get()?.device().any_at(place as usize)
}

/// Advances to the next record. Returns whether there is one. The words of a mark are: the core's
/// place; its last job to show (0: unknown); the current job; the byte offset in it; its size in
/// bytes.
pub(super) fn advance(mark: &mut Mark) -> bool {
    let [place, last, job, offset, bytes] = mark;
    // CAST: a constant.
    *offset += 4 * PIECE as u64;
    if *offset < *bytes {
        return true;
    }
    let mut from = *job + 1;
    // CAST: a constant.
    while *place < MAX_CORES as u64 {
        let core = core_at(*place);
        if *last == 0 {
            *last = core.as_ref().map_or(0, AnyCore::newest);
        }
        let found = core.and_then(|core| core.given(from));
        if let Some(found) = found.filter(|found| found.noted.number <= *last) {
            (*job, *offset, *bytes) = (found.noted.number, 0, found.noted.bytes.into());
            return true;
        }
        *place += 1;
        (*last, from) = (0, 0);
    }
    false
}

/// Copies words of job `number` of a core, from its byte `offset` on, if they are still in memory.
fn piece<'a>(
    core: &AnyCore,
    number: u64,
    offset: u32,
    words: &'a mut [u32; PIECE],
) -> Option<(Given, &'a [u32])> {
    let job = core.given(number)?;
    let count = u32_as_usize(job.noted.bytes.saturating_sub(offset) / 4);
    let words = &mut words[..count.min(PIECE)];
    let is_there = job.noted.number == number && core.copy_given(&job, offset, words);
    is_there.then_some((job, words))
}

/// Shows the record. If this is repeated, the result is the same, or `gone`.
pub(super) fn show(mark: &mut Mark, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let [place, _, number, offset, bytes] = mark;
    // CAST: less than `bytes`, which was 32 bits. A place is small.
    let (offset, index) = (*offset as u32, *place as usize);
    let mut words = [0; PIECE];
    let core = core_at(*place);
    let found = core
        .as_ref()
        .and_then(|core| Some((core, piece(core, *number, offset, &mut words)?)));
    let Some((core, (job, words))) = found else {
        *bytes = 0;
        return f.write_fmt(fmt!("job {number:#x} of core {index}: gone\n"));
    };
    if offset == 0 {
        let (own, own_bytes) = job.noted.own;
        let state = if job.is_under_way {
            "under way"
        } else {
            "ended"
        };
        // Not decimal: that needs 64-bit division, which the kernel lacks on 32-bit ARM.
        f.write_fmt(fmt!(
            "job {number:#x} of core {index} ({}), process {}, {} words at {:#010x}, \
             its own {} at {:#010x}, {}\n",
            core.kind().name(),
            job.noted.process,
            job.noted.bytes / 4,
            job.address,
            own_bytes / 4,
            job.address.wrapping_add(own),
            state
        ))?;
    }
    let mut address = job.address.wrapping_add(offset);
    for line in words.chunks(4) {
        f.write_fmt(fmt!("{address:#010x}"))?;
        for word in line {
            f.write_fmt(fmt!(" {word:08x}"))?;
        }
        f.write_str("\n")?;
        address = address.wrapping_add(16);
    }
    Ok(())
}
