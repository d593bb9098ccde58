// SPDX-License-Identifier: GPL-2.0-only
//! What costs others time: an innocent process commits and waits all the while, and its waits stay short.

use std::ffi::CString;
use std::fs::File;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Result;
use galcore_client::device::NODES;
use galcore_client::raw::opened_by_another;
use galcore_client::uapi::Pool;
use galcore_client::Abi;
use galcore_client::Device;
use galcore_client::Queue;

use super::attacker::KIND;
use super::here;
use super::innocent::Innocent;
use super::kill;
use super::number;
use super::PAGE;
use crate::harness::bounded;
use crate::harness::skip;
use crate::harness::Stopwatch;
use crate::other::Other;
use crate::system;
use crate::system::ProcGc;
use crate::tracing::Lateness;
use crate::tracing::Recording;

/// The most that others may add to a wait.
const BOUND: Duration = Duration::from_millis(20);

/// The most time that a process takes to end when it is killed.
pub const DEATH: Duration = Duration::from_millis(100);

/// A machine that is busy itself may spoil a measurement, but not each time.
const ATTEMPTS: u32 = 4;

/// As often a host that kept the board waiting for as long may spoil one besides. It says nothing then.
const SPOILT: u32 = 8;

/// No machine adds so much: it is not tried again.
const BEYOND: Duration = Duration::from_secs(2);

/// Windows on the pool of a process.
const WINDOWS: u32 = 2000;

/// Nodes of a process, and its windows beside them.
const MANY: (u32, u32) = (8000, 1000);

/// The most that a COMMIT which is refused may take.
const REFUSAL: Duration = Duration::from_millis(10);

/// Fails unless an innocent process's waits stay short while `attack` goes on. It is given a fresh attacker, and is to
/// prepare it first and to return what then does the harm.
fn harmless<'a>(
    abi: &'static Abi,
    prepare: impl Fn(&mut Other) -> Result<()>,
    attack: impl Fn(Other) -> Result<()> + 'a,
) -> Result<()> {
    harmless_to(false, abi, prepare, attack)
}

/// The same, for a process that is `urgent`, or not.
fn harmless_to<'a>(
    urgent: bool,
    abi: &'static Abi,
    prepare: impl Fn(&mut Other) -> Result<()>,
    attack: impl Fn(Other) -> Result<()> + 'a,
) -> Result<()> {
    let bound = here(BOUND)?;
    let mut extras = Vec::new();
    let mut spoilt = 0;
    while extras.len() < ATTEMPTS as usize {
        let mut attacker = Other::start(abi)?;
        prepare(&mut attacker)?;
        let mut innocent = Innocent::start()?;
        let recording = Recording::of_interrupts()?;
        let watch = Stopwatch::start();
        let waits = innocent.while_watching(urgent, || {
            attack(attacker)?;
            // What goes on behind it counts, too.
            thread::sleep(Duration::from_millis(50));
            Ok(())
        })?;
        let lost = watch.lost();
        let text = recording.map_or(Ok(String::new()), |recording| recording.text())?;
        let late = Lateness::of(&text);
        println!(
            "# {} waits, mean {} us, longest {} ms, the machine {} ms, extra {} ms, the host {} ms",
            waits.count,
            waits.mean.as_micros(),
            waits.longest.as_millis(),
            waits.machine.as_millis(),
            waits.extra().as_millis(),
            lost.as_millis()
        );
        println!(
            "# {} interrupts: their thread ran {:.1?} later at most, and had done all {:.1?} later",
            late.count, late.begin, late.end
        );
        let extra = waits.extra().max(late.end);
        if extra <= bound {
            return Ok(());
        }
        let guests = extra.saturating_sub(lost);
        if guests <= bound && spoilt < SPOILT {
            spoilt += 1;
            continue;
        }
        extras.push(extra.as_millis());
        if guests > BEYOND {
            break;
        }
    }
    if spoilt == SPOILT {
        return skip("the host keeps the board waiting for longer than what is measured");
    }
    bail!("others wait {extras:?} ms longer, the bound is {bound:.1?}")
}

fn ask(attacker: &mut Other, what: &str) -> Result<()> {
    attacker.ask(what)?;
    Ok(())
}

/// Processes that only compute: what the machine itself adds is not the driver's.
pub fn computing() -> Result<()> {
    harmless(
        Abi::own(),
        |_| Ok(()),
        |mut attacker| ask(&mut attacker, "spin 500"),
    )
}

/// The most that opening the device takes where others keep the processors busy.
const OPEN: Duration = Duration::from_secs(1);

/// The same of threads that ask for other things of the core; others open the device meanwhile.
pub fn inverted_looks() -> Result<()> {
    inversion_of("invert 3000 looks", || {
        let begun = Instant::now();
        drop(Device::open()?);
        let took = begun.elapsed();
        ensure!(took < here(OPEN)?, "opening took {took:?}");
        Ok(())
    })
}

/// Threads that seldom run and have what others wait for, beside a process that is to run first.
pub fn inversion() -> Result<()> {
    inversion_of("invert 3000", || Ok(()))
}

/// Threads do as `what` says, and this process does `other` meanwhile, again and again.
fn inversion_of(what: &'static str, other: impl Fn() -> Result<()>) -> Result<()> {
    // Where they are stopped is chance, and so is how long the machine itself takes then.
    let mut found = Ok(());
    for _ in 0..4 {
        found = harmless_to(
            true,
            Abi::own(),
            |_| Ok(()),
            |mut attacker| {
                attacker.tell(what)?;
                let begun = Instant::now();
                while begun.elapsed() < Duration::from_millis(2500) {
                    other()?;
                    thread::sleep(Duration::from_millis(20));
                }
                attacker.answer().map(drop)
            },
        );
        if found.is_ok() {
            break;
        }
    }
    found
}

/// A FREE takes a page out of all windows that show it, in time that grows with their number and no faster.
pub fn free_is_linear() -> Result<()> {
    let mut ratios = Vec::new();
    for _ in 0..ATTEMPTS {
        let mut each = [0.0; 2];
        for (index, windows) in [20, WINDOWS].into_iter().enumerate() {
            let mut quickest = u32::MAX;
            // The first round of a process costs more.
            let mut attacker = Other::start(Abi::own())?;
            for _ in 0..2 {
                attacker.ask(&format!("show {windows}"))?;
                let took: u32 = number(&[attacker.ask("free")?.as_str()], 0)?;
                quickest = quickest.min(took);
            }
            println!("# {windows} windows: {quickest} us");
            each[index] = f64::from(quickest) / f64::from(windows);
        }
        let ratio = each[1] / each[0];
        if ratio <= 3.0 {
            return Ok(());
        }
        ratios.push(ratio);
        if ratio > 20.0 {
            break;
        }
    }
    bail!("a page shown by {WINDOWS} windows costs {ratios:.1?} times what one shown by 20 does")
}

/// FREE of a page that thousands of windows show, by an ioctl or by a record.
pub fn free(by_record: bool) -> Result<()> {
    harmless(
        Abi::own(),
        |attacker| ask(attacker, &format!("show {WINDOWS}")),
        move |mut attacker| {
            if by_record {
                ask(&mut attacker, "free-by-record")
            } else {
                ask(&mut attacker, "free")
            }
        },
    )
}

/// A process that is killed while it frees such a page ends soon.
pub fn killed_while_freeing(by_record: bool) -> Result<()> {
    dies_soon(
        Abi::own(),
        |attacker| ask(attacker, &format!("show {WINDOWS}")),
        soon_after(if by_record { "free-by-record" } else { "free" }),
    )
}

/// Pages that are freed by records, each of which thousands of windows could show.
const PAGES: u32 = 200;

/// What prepares an attacker for that.
fn show_each(attacker: &mut Other) -> Result<()> {
    ask(attacker, &format!("show-each {PAGES} {WINDOWS}"))
}

/// Who is killed while what it freed by records is taken out of its windows ends soon.
pub fn killed_while_hiding() -> Result<()> {
    dies_soon(Abi::own(), show_each, |attacker, _| {
        ask(attacker, "free-each-by-record")
    })
}

/// Memory of one process that it frees by a record is back soon, while another's is taken out of thousands of windows.
pub fn renewed() -> Result<()> {
    // It fits once.
    let bytes = ProcGc::read()?.reserved()? as usize / 4 * 3 * 1024;
    let mut innocent = Innocent::start()?;
    let mut alone = Duration::ZERO;
    for _ in 0..3 {
        alone = alone.max(innocent.renew(bytes)?);
    }
    let mut times = Vec::new();
    for _ in 0..ATTEMPTS {
        let mut attacker = Other::start(Abi::own())?;
        show_each(&mut attacker)?;
        ask(&mut attacker, "free-each-by-record")?;
        let watch = Stopwatch::start();
        let took = innocent.renew(bytes)?;
        let lost = watch.lost();
        let is_over = !system::is_pending()?;
        attacker.kill()?;
        ProcGc::nothing_left()?;
        println!("# alone {alone:.1?}, beside it {took:.1?}");
        ensure!(!is_over || took > BEYOND, "the attack ended too soon");
        if took <= 4 * alone + here(BOUND)? + lost {
            return Ok(());
        }
        times.push(took.as_millis());
        if took > BEYOND {
            break;
        }
    }
    bail!("it took {times:?} ms, and alone {alone:.1?}")
}

/// Tells it `what`, and lets it do so for a moment, a longer one with each attempt.
fn soon_after(what: &str) -> impl Fn(&mut Other, u32) -> Result<()> + '_ {
    move |attacker, attempt| {
        attacker.tell(what)?;
        thread::sleep(Duration::from_millis(5 + 10 * u64::from(attempt)));
        Ok(())
    }
}

/// Fails unless a process that is killed after `act` ends as soon as one that has only been prepared, or within
/// [`DEATH`] more.
fn dies_soon(
    abi: &'static Abi,
    prepare: impl Fn(&mut Other) -> Result<()>,
    act: impl Fn(&mut Other, u32) -> Result<()>,
) -> Result<()> {
    let mut times = Vec::new();
    for attempt in 0..ATTEMPTS {
        // What takes the machine so long: each time anew, as it may be busy itself.
        let mut idle = Other::start(abi)?;
        prepare(&mut idle)?;
        let machine = kill(idle)?;
        let mut attacker = Other::start(abi)?;
        prepare(&mut attacker)?;
        act(&mut attacker, attempt)?;
        let took = kill(attacker)?;
        println!("# it took {took:.1?}, and {machine:.1?} when it had done nothing");
        if took <= here(DEATH)? + machine {
            return Ok(());
        }
        times.push((took.as_millis(), machine.as_millis()));
        if took > BEYOND {
            break;
        }
    }
    bail!("ms until they ended, and when they had done nothing: {times:?}; the bound is {DEATH:?} more")
}

/// A process with thousands of windows and nodes ends, by itself or killed.
pub fn exit(killed: bool) -> Result<()> {
    harmless(
        Abi::own(),
        |attacker| {
            ask(attacker, "show 500")?;
            ask(attacker, &format!("many {} {}", MANY.0, MANY.1))
        },
        move |attacker| {
            if killed {
                attacker.kill()?
            } else {
                drop(attacker)
            }
            Ok(())
        },
    )
}

/// A process that maps, unmaps and forks without end.
pub fn mapping() -> Result<()> {
    harmless(
        Abi::own(),
        |_| Ok(()),
        |mut attacker| ask(&mut attacker, "remap 700"),
    )
}

/// A process that commits what is wrong without end.
pub fn garbage() -> Result<()> {
    harmless(
        Abi::own(),
        |_| Ok(()),
        |mut attacker| ask(&mut attacker, "garbage 700 5"),
    )
}

/// A process whose queues write thousands of words into the pool.
pub fn writing() -> Result<()> {
    harmless(
        Abi::own(),
        |_| Ok(()),
        |mut attacker| ask(&mut attacker, "write-words 700"),
    )
}

/// A COMMIT of commands that are nowhere, of a process with many nodes and windows.
pub fn commit_nowhere() -> Result<()> {
    let prepare = |attacker: &mut Other| ask(attacker, &format!("many {} {}", MANY.0, MANY.1));
    let mut attacker = Other::start(Abi::own())?;
    prepare(&mut attacker)?;
    bounded("the refusal", here(REFUSAL)?, || {
        let answer = attacker.ask("commit-nowhere 3")?;
        println!("# refused within {answer} us");
        Ok(Duration::from_micros(number(&[answer.as_str()], 0)?))
    })?;
    let mut innocent = Innocent::start()?;
    let waits = innocent.while_watching(false, || ask(&mut attacker, "commit-nowhere 20"))?;
    println!("# extra {} ms", waits.extra().as_millis());
    ensure!(
        waits.extra() <= 2 * here(BOUND)?,
        "others wait {:?} longer",
        waits.extra()
    );
    Ok(())
}

/// The generation with chains of command locations.
const CHAINED: &str = "6.4.11";

/// A chain of locations that all lie in the last of many nodes.
pub fn commit_chain() -> Result<()> {
    let abi = Abi::named(CHAINED).ok_or(anyhow::anyhow!("no {CHAINED}"))?;
    let prepare = |attacker: &mut Other| ask(attacker, &format!("many {} {}", MANY.0, MANY.1));
    dies_soon(abi, prepare, soon_after("commit-chain"))?;
    let mut attacker = Other::start(abi)?;
    prepare(&mut attacker)?;
    bounded("a chain's commit", 10 * here(REFUSAL)?, || {
        let answer = attacker.ask("commit-chain")?;
        println!("# the chain: {answer} us");
        Ok(Duration::from_micros(number(&[answer.as_str()], 0)?))
    })
}

/// MiB that a process pins: what the board has to spare.
fn much() -> Result<usize> {
    let free = system::meminfo("MemAvailable")? as usize / 1024;
    Ok((free / 2).min(160))
}

/// A process with much pinned memory gives it back: by an ioctl, or when it is killed.
pub fn unpin(killed: bool) -> Result<()> {
    let bytes = much()? << 20;
    println!("# {} MiB", bytes >> 20);
    harmless(
        Abi::own(),
        |attacker| ask(attacker, &format!("pin {bytes}")),
        move |mut attacker| {
            if killed {
                attacker.kill()
            } else {
                ask(&mut attacker, "unpin")
            }
        },
    )
}

/// A process with thousands of scattered nodes is killed.
pub fn scattered() -> Result<()> {
    harmless(
        Abi::own(),
        |attacker| ask(attacker, &format!("scatter 4096 {}", 4 * PAGE)),
        Other::kill,
    )
}

/// Pages that are freed by records of a process that has ended, and the time until they are back. Who gives way to
/// the end of a process for ever needs 50 ms for each.
const ORPHANS: (u32, Duration) = (400, Duration::from_secs(6));

/// A process ends while another one, which shares its memory map, goes on with its open file. What that frees comes
/// back as soon as anybody's does.
pub fn orphaned() -> Result<()> {
    let path = CString::new(NODES[0])?;
    let device = Device::of_file(File::from(opened_by_another(&path)?))?;
    let pool = device.map_pool()?;
    let mut queue = Queue::new();
    for _ in 0..ORPHANS.0 {
        let node = device.allocate(PAGE as u32, 64, KIND, Pool::SYSTEM)?;
        let place = device.lock(node)?;
        device.memory(node, place, &pool)?.write(0, 0x0bad_0007);
        device.unlock(node)?;
        queue.free(node);
    }
    let done = device.create_signal(false)?;
    let begin = Instant::now();
    device.commit_queue(queue.signal(done))?;
    device.wait_signal(done, 60_000)?;
    while system::is_pending()? {
        ensure!(
            begin.elapsed() < 20 * ORPHANS.1,
            "what was freed does not come back"
        );
        thread::sleep(Duration::from_millis(5));
    }
    let took = begin.elapsed();
    println!("# back after {} ms", took.as_millis());
    let bound = here(ORPHANS.1)?;
    ensure!(took <= bound, "it took {took:?}, the bound is {bound:?}");
    Ok(())
}
