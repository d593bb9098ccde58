// SPDX-License-Identifier: GPL-2.0-only
//! User signals: both kinds, waits, references, owners, threads, processes, and Unix signals.

use std::fs::File;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Write;
use std::os::fd::AsFd;
use std::process::Child;
use std::process::ExitCode;
use std::process::Stdio;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::uapi;
use galcore_client::uapi::Status;
use galcore_client::uapi::INFINITE;
use galcore_client::Device;
use galcore_client::Queue;
use galcore_selftests::foreign::Foreign;
use galcore_selftests::harness;
use galcore_selftests::harness::refused;
use galcore_selftests::harness::same;
use galcore_selftests::harness::settles;
use galcore_selftests::harness::Options;
use galcore_selftests::harness::Stopwatch;
use galcore_selftests::harness::Suite;
use galcore_selftests::system;
use rustix::process::kill_process;
use rustix::process::Pid;
use rustix::process::Signal;

/// Waits and returns the duration.
fn timed(
    device: &Device,
    id: i32,
    milliseconds: u32,
) -> (Duration, galcore_client::device::Result<()>) {
    let begin = Instant::now();
    let result = device.wait_signal(id, milliseconds);
    (begin.elapsed(), result)
}

/// Starts this program as a child, with the device's file as its standard input.
fn child(device: &Device, arguments: &[&str]) -> Result<Child> {
    let file = device.as_fd().try_clone_to_owned()?;
    Ok(system::again(arguments)?
        .stdin(Stdio::from(file))
        .stdout(Stdio::piped())
        .spawn()?)
}

/// Reads the child's next line.
fn line(child: &mut Child) -> Result<String> {
    let output = child.stdout.as_mut().context("no pipe")?;
    let mut text = String::new();
    // Reads byte by byte, so that no data of a later line is lost with the reader.
    BufReader::with_capacity(1, output).read_line(&mut text)?;
    Ok(text.trim_end().to_string())
}

fn pid(child: &Child) -> Result<Pid> {
    Pid::from_raw(child.id() as i32).context("pid")
}

/// The children's actions. The device is their standard input.
fn child_main(words: &[String]) -> Result<()> {
    let file = File::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let device = Device::of_file(file)?;
    let id: i32 = words[1].parse()?;
    match words[0].as_str() {
        "set" => device.set_signal(id, true)?,
        "create" => println!("{}", device.create_signal(false)?),
        "wait" => {
            let caught = Arc::new(std::sync::atomic::AtomicBool::new(false));
            signal_hook::flag::register(signal_hook::consts::SIGUSR1, caught.clone())?;
            println!("waiting");
            std::io::stdout().flush()?;
            device.wait_signal(id, INFINITE)?;
            println!(
                "woken, handler {}",
                if caught.load(Ordering::SeqCst) {
                    "ran"
                } else {
                    "did not run"
                }
            );
        }
        "hold" => {
            // Uses objects that only this process's own file has, and is killed while it waits.
            let own = Device::open()?;
            let never = own.create_signal(false)?;
            own.allocate(1 << 20, 64, uapi::surface::BITMAP, uapi::Pool::SYSTEM)?;
            own.allocate_contiguous(1 << 20)?;
            println!("waiting");
            std::io::stdout().flush()?;
            own.wait_signal(never, INFINITE)?;
        }
        "crowd" => {
            // The largest possible number of threads waits forever, on two signals.
            let own = Device::open()?;
            let (one, all) = (own.create_signal(false)?, own.create_signal(true)?);
            thread::scope(|scope| {
                for index in 0..CROWD {
                    let (own, id) = (&own, if index % 2 == 0 { one } else { all });
                    scope.spawn(move || own.wait_signal(id, INFINITE));
                }
                thread::sleep(Duration::from_millis(100));
                println!("waiting");
            });
        }
        "destroy" => device.destroy_signal(id)?,
        "many" => println!("{}", many(id as u32)?),
        "leave" => {
            let own = Device::open()?;
            for _ in 0..1000 {
                own.create_signal(true)?;
            }
        }
        other => anyhow::bail!("unknown child {other:?}"),
    }
    Ok(())
}

/// Number of concurrent waiting threads.
const CROWD: usize = 48;
/// Most signals of a process.
const LIMIT: u32 = 16_384;

/// Creates `count` signals, or as many as the limit allows. All of them must then work.
fn many(count: u32) -> Result<String> {
    let device = Device::open()?;
    let begin = Instant::now();
    let mut ids = Vec::new();
    let mut refusals = 0;
    let mut quarter = Duration::ZERO;
    for index in 0..count {
        if index == count / 4 {
            quarter = begin.elapsed();
        }
        match device.create_signal(ids.len() % 2 == 1) {
            Ok(id) => ids.push(id),
            Err(error) => {
                same("status", error.status(), Some(Status::OUT_OF_RESOURCES))?;
                refusals += 1;
            }
        }
    }
    let made = begin.elapsed();
    same("signals", ids.len() as u32, LIMIT.min(count))?;
    same("refusals", refusals, count.saturating_sub(LIMIT))?;
    // Other objects can still be allocated.
    let buffer = device.allocate_contiguous(4096)?;
    let mut queue = Queue::new();
    let spread: Vec<i32> = ids.iter().step_by(997).copied().collect();
    for id in &spread {
        queue.signal(*id);
    }
    device.commit_queue(&mut queue)?;
    device.stall()?;
    for id in &spread {
        device.wait_signal(*id, 0)?;
    }
    device.free_contiguous(&buffer)?;
    // After one is destroyed, another can be created.
    for _ in 0..10 {
        let gone = ids.pop().context("no signals")?;
        device.destroy_signal(gone)?;
        ids.push(device.create_signal(false)?);
    }
    if count > LIMIT {
        let one_more = device.create_signal(false);
        refused("one more", one_more, Status::OUT_OF_RESOURCES)?;
    }
    Ok(format!(
        "{} ms, the first quarter in {} ms",
        made.as_millis(),
        quarter.as_millis()
    ))
}

fn basic_tests<'a>(suite: &mut Suite<'a>, device: &'a Device) {
    suite.test("ids are small, positive and different", move || {
        let ids: Vec<i32> = (0..200)
            .map(|_| device.create_signal(false))
            .collect::<Result<_, _>>()?;
        let mut sorted = ids.clone();
        sorted.sort_unstable();
        sorted.dedup();
        same("different ids", sorted.len(), 200)?;
        ensure!(sorted[0] > 0, "id {}", sorted[0]);
        for id in ids {
            device.destroy_signal(id)?;
        }
        Ok(())
    });
    suite.test("auto-reset: one set lets one wait through", move || {
        let id = device.create_signal(false)?;
        refused("WAIT 0 before", device.wait_signal(id, 0), Status::TIMEOUT)?;
        device.set_signal(id, true)?;
        device.wait_signal(id, 0)?;
        refused("second WAIT", device.wait_signal(id, 0), Status::TIMEOUT)?;
        device.set_signal(id, true)?;
        device.set_signal(id, true)?;
        device.wait_signal(id, 1000)?;
        refused(
            "two sets are one",
            device.wait_signal(id, 0),
            Status::TIMEOUT,
        )?;
        device.set_signal(id, true)?;
        device.set_signal(id, false)?;
        refused("set and reset", device.wait_signal(id, 0), Status::TIMEOUT)?;
        Ok(device.destroy_signal(id)?)
    });
    suite.test("manual reset: stays set until it is reset", move || {
        let id = device.create_signal(true)?;
        refused("WAIT 0 before", device.wait_signal(id, 0), Status::TIMEOUT)?;
        device.set_signal(id, true)?;
        for _ in 0..3 {
            device.wait_signal(id, 0)?;
            device.wait_signal(id, INFINITE)?;
        }
        device.set_signal(id, false)?;
        refused("after reset", device.wait_signal(id, 0), Status::TIMEOUT)?;
        Ok(device.destroy_signal(id)?)
    });
    suite.test(
        "a time-out comes after its time, and not much later",
        move || {
            let id = device.create_signal(false)?;
            for milliseconds in [1, 10, 100, 300] {
                let (took, result) = timed(device, id, milliseconds);
                refused(&format!("WAIT {milliseconds}"), result, Status::TIMEOUT)?;
                let wanted = Duration::from_millis(milliseconds.into());
                ensure!(took >= wanted, "WAIT {milliseconds} ended after {took:?}");
                ensure!(
                    took < wanted + Duration::from_secs(2),
                    "WAIT {milliseconds} took {took:?}"
                );
            }
            let (took, result) = timed(device, id, 0);
            refused("WAIT 0", result, Status::TIMEOUT)?;
            ensure!(took < Duration::from_millis(500), "WAIT 0 took {took:?}");
            Ok(device.destroy_signal(id)?)
        },
    );
    suite.test("the largest finite wait does not wrap", move || {
        let id = device.create_signal(false)?;
        thread::scope(|scope| {
            for milliseconds in [0xffff_fffe, 0x8000_0000, 42_949_673] {
                let waiter = scope.spawn(move || timed(device, id, milliseconds));
                thread::sleep(Duration::from_millis(60));
                let over = waiter.is_finished();
                device.set_signal(id, true)?;
                let (took, result) = waiter.join().expect("no panic");
                result.with_context(|| format!("WAIT {milliseconds}"))?;
                ensure!(!over, "WAIT {milliseconds} ended after {took:?}");
            }
            Ok(device.destroy_signal(id)?)
        })
    });
    suite.test("unknown ids answer NOT_FOUND", move || {
        let gone = device.create_signal(false)?;
        device.destroy_signal(gone)?;
        for id in [0, -1, gone, 0x7fff_ffff, i32::MIN, 12_345_678] {
            let what = |command| format!("{command} of {id}");
            refused(&what("WAIT"), device.wait_signal(id, 0), Status::NOT_FOUND)?;
            refused(
                &what("SIGNAL"),
                device.set_signal(id, true),
                Status::NOT_FOUND,
            )?;
            refused(
                &what("DESTROY"),
                device.destroy_signal(id),
                Status::NOT_FOUND,
            )?;
            refused(&what("MAP"), device.map_signal(id), Status::NOT_FOUND)?;
            refused(&what("UNMAP"), device.unmap_signal(id), Status::NOT_FOUND)?;
        }
        Ok(())
    });
    suite.test("unknown sub-commands answer INVALID_ARGUMENT", move || {
        let id = device.create_signal(false)?;
        for command in [6, 7, 100, 0x8000_0000, u32::MAX] {
            let payload = uapi::UserSignal {
                command,
                id,
                ..Default::default()
            };
            let (status, _) = device.user_signal(&payload)?;
            same(
                &format!("sub-command {command}"),
                status,
                Status::INVALID_ARGUMENT,
            )?;
        }
        Ok(device.destroy_signal(id)?)
    });
    suite.test("MAP and UNMAP count references", move || {
        let id = device.create_signal(false)?;
        device.map_signal(id)?;
        device.map_signal(id)?;
        device.destroy_signal(id)?;
        device.unmap_signal(id)?;
        device.set_signal(id, true)?;
        device.wait_signal(id, 0)?;
        device.unmap_signal(id)?;
        refused(
            "after the last reference",
            device.wait_signal(id, 0),
            Status::NOT_FOUND,
        )
    });
    suite.test("another process's ids are unknown", move || {
        let foreign = Foreign::start()?;
        let id = foreign.signal();
        refused("WAIT", device.wait_signal(id, 0), Status::NOT_FOUND)?;
        refused("SIGNAL", device.set_signal(id, true), Status::NOT_FOUND)?;
        refused("MAP", device.map_signal(id), Status::NOT_FOUND)?;
        refused("DESTROY", device.destroy_signal(id), Status::NOT_FOUND)
    });
    suite.test(
        "a second file of the same process knows the first one's ids",
        move || {
            let id = device.create_signal(false)?;
            let second = Device::open()?;
            second.set_signal(id, true)?;
            device.wait_signal(id, 0)?;
            drop(second);
            Ok(device.destroy_signal(id)?)
        },
    );
}

fn thread_tests<'a>(suite: &mut Suite<'a>, device: &'a Device) {
    suite.test("manual reset wakes every waiting thread", move || {
        let id = device.create_signal(true)?;
        thread::scope(|scope| {
            let waiters: Vec<_> = (0..6)
                .map(|_| scope.spawn(move || device.wait_signal(id, 10_000)))
                .collect();
            thread::sleep(Duration::from_millis(80));
            device.set_signal(id, true)?;
            for waiter in waiters {
                waiter
                    .join()
                    .expect("no panic")
                    .context("a thread was not woken")?;
            }
            Ok(device.destroy_signal(id)?)
        })
    });
    suite.test("auto-reset wakes one waiting thread a set", move || {
        let id = device.create_signal(false)?;
        let woken = AtomicUsize::new(0);
        let woken = &woken;
        thread::scope(|scope| {
            let waiters: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(move || {
                        let result = device.wait_signal(id, 10_000);
                        woken.fetch_add(1, Ordering::SeqCst);
                        result
                    })
                })
                .collect();
            for count in 1..=4 {
                thread::sleep(Duration::from_millis(80));
                same("woken so far", woken.load(Ordering::SeqCst), count - 1)?;
                device.set_signal(id, true)?;
                let one = || Ok(woken.load(Ordering::SeqCst) == count);
                harness::eventually("one more woken", Duration::from_secs(2), one)?;
            }
            for waiter in waiters {
                waiter.join().expect("no panic")?;
            }
            Ok(device.destroy_signal(id)?)
        })
    });
    suite.test(
        "two threads pass a turn back and forth a thousand times",
        move || {
            let (ping, pong) = (device.create_signal(false)?, device.create_signal(false)?);
            thread::scope(|scope| {
                let partner = scope.spawn(move || -> galcore_client::device::Result<()> {
                    for _ in 0..1000 {
                        device.wait_signal(ping, 10_000)?;
                        device.set_signal(pong, true)?;
                    }
                    Ok(())
                });
                for _ in 0..1000 {
                    device.set_signal(ping, true)?;
                    device.wait_signal(pong, 10_000)?;
                }
                partner.join().expect("no panic")?;
                device.destroy_signal(ping)?;
                Ok(device.destroy_signal(pong)?)
            })
        },
    );
    suite.test(
        "DESTROY ends the waits of others with NOT_FOUND",
        move || {
            for manual in [false, true] {
                let id = device.create_signal(manual)?;
                thread::scope(|scope| {
                    let waiters: Vec<_> = [INFINITE, 10_000, 0xffff_fffe]
                        .into_iter()
                        .cycle()
                        .take(CROWD)
                        .map(|time| scope.spawn(move || device.wait_signal(id, time)))
                        .collect();
                    thread::sleep(Duration::from_millis(150));
                    let begin = Stopwatch::start();
                    device.destroy_signal(id)?;
                    for waiter in waiters {
                        let result = waiter.join().expect("no panic");
                        refused("WAIT", result, Status::NOT_FOUND)?;
                    }
                    let took = begin.elapsed();
                    ensure!(
                        took < Duration::from_secs(3),
                        "the waits took {took:?} to end"
                    );
                    Ok::<_, anyhow::Error>(())
                })?;
            }
            Ok(())
        },
    );
    suite.test("DESTROY of one of two references ends no wait", move || {
        let id = device.create_signal(false)?;
        device.map_signal(id)?;
        thread::scope(|scope| {
            let waiter = scope.spawn(move || device.wait_signal(id, 10_000));
            thread::sleep(Duration::from_millis(60));
            device.destroy_signal(id)?;
            thread::sleep(Duration::from_millis(60));
            ensure!(!waiter.is_finished(), "the wait has ended");
            device.set_signal(id, true)?;
            waiter.join().expect("no panic")?;
            Ok(device.unmap_signal(id)?)
        })
    });
    suite.test(
        "MAP and UNMAP from a crowd of threads, while the GPU sets it, lose no reference",
        move || {
            let id = device.create_signal(false)?;
            let (rounds, sets) = (200, 50);
            thread::scope(|scope| {
                let mappers: Vec<_> = (0..8)
                    .map(|_| {
                        scope.spawn(move || -> Result<()> {
                            for _ in 0..rounds {
                                device.map_signal(id)?;
                                device.unmap_signal(id)?;
                            }
                            // Each thread keeps one reference.
                            Ok(device.map_signal(id)?)
                        })
                    })
                    .collect();
                for set in 0..sets {
                    device.commit_queue(Queue::new().signal(id))?;
                    let waited = device.wait_signal(id, 10_000);
                    waited.with_context(|| format!("set {set}"))?;
                }
                for mapper in mappers {
                    mapper.join().expect("no panic")?;
                }
                Ok::<_, anyhow::Error>(())
            })?;
            refused("one more wait", device.wait_signal(id, 0), Status::TIMEOUT)?;
            // A queue keeps the signal after its last reference.
            for _ in 0..8 {
                device.unmap_signal(id)?;
            }
            device.commit_queue(Queue::new().signal(id))?;
            device.unmap_signal(id)?;
            refused(
                "one reference too many",
                device.unmap_signal(id),
                Status::NOT_FOUND,
            )?;
            Ok(device.stall()?)
        },
    );
    suite.test(
        "many waiters: each set of an auto-reset signal wakes one",
        move || {
            let id = device.create_signal(false)?;
            let woken = AtomicUsize::new(0);
            let woken = &woken;
            thread::scope(|scope| {
                let waiters: Vec<_> = (0..CROWD)
                    .map(|_| {
                        scope.spawn(move || {
                            let result = device.wait_signal(id, 20_000);
                            woken.fetch_add(1, Ordering::SeqCst);
                            result
                        })
                    })
                    .collect();
                thread::sleep(Duration::from_millis(150));
                for count in 1..=CROWD {
                    device.commit_queue(Queue::new().signal(id))?;
                    let one = || Ok(woken.load(Ordering::SeqCst) >= count);
                    harness::eventually("one more woken", Duration::from_secs(5), one)?;
                    same("woken", woken.load(Ordering::SeqCst), count)?;
                }
                for waiter in waiters {
                    waiter.join().expect("no panic")?;
                }
                refused("one more", device.wait_signal(id, 0), Status::TIMEOUT)?;
                Ok(device.destroy_signal(id)?)
            })
        },
    );
    suite.test(
        "many waiters: one set of a manual one wakes all",
        move || {
            let id = device.create_signal(true)?;
            thread::scope(|scope| {
                let waiters: Vec<_> = (0..CROWD)
                    .map(|_| scope.spawn(move || device.wait_signal(id, 20_000)))
                    .collect();
                thread::sleep(Duration::from_millis(150));
                device.commit_queue(Queue::new().signal(id))?;
                for waiter in waiters {
                    waiter.join().expect("no panic").context("not woken")?;
                }
                Ok(device.destroy_signal(id)?)
            })
        },
    );
    suite.test("a set that meets a time-out is not lost", move || {
        let id = device.create_signal(false)?;
        let (mut taken, mut left) = (0, 0);
        thread::scope(|scope| {
            for round in 0..100 {
                let waiter = scope.spawn(move || device.wait_signal(id, 3));
                thread::sleep(Duration::from_micros(8000 + round % 20 * 800));
                device.set_signal(id, true)?;
                // Either this wait consumed the set, or the signal is still set.
                match waiter.join().expect("no panic") {
                    Ok(()) => taken += 1,
                    Err(error) => {
                        same("WAIT", error.status(), Some(Status::TIMEOUT))?;
                        device.wait_signal(id, 0).context("lost")?;
                        left += 1;
                    }
                }
                refused("twice", device.wait_signal(id, 0), Status::TIMEOUT)?;
            }
            println!("# {taken} in time, {left} later");
            Ok(device.destroy_signal(id)?)
        })
    });
    suite.test(
        "a waiter and a destroyer do not disturb each other",
        move || {
            thread::scope(|scope| {
                for _ in 0..50 {
                    let id = device.create_signal(false)?;
                    let waiter = scope.spawn(move || device.wait_signal(id, 20));
                    device.destroy_signal(id)?;
                    // The wait must end in either order.
                    let result = waiter.join().expect("no panic");
                    let status = result.err().and_then(|error| error.status());
                    ensure!(
                        matches!(status, None | Some(Status::TIMEOUT | Status::NOT_FOUND)),
                        "WAIT: {status:?}"
                    );
                }
                Ok(())
            })
        },
    );
}

fn process_tests<'a>(suite: &mut Suite<'a>, device: &'a Device, count: u32) {
    suite.test("a child with the same file shares its signals", move || {
        let id = device.create_signal(false)?;
        let mut setter = child(device, &["--child", "set", &id.to_string()])?;
        device
            .wait_signal(id, 10_000)
            .context("the child's SIGNAL")?;
        same("child", setter.wait()?.code(), Some(0))?;
        let mut creator = child(device, &["--child", "create", "0"])?;
        let made: i32 = line(&mut creator)?.parse()?;
        creator.wait()?;
        device
            .set_signal(made, true)
            .context("SIGNAL of the child's id")?;
        device.wait_signal(made, 0)?;
        device.destroy_signal(made)?;
        Ok(device.destroy_signal(id)?)
    });
    suite.test(
        "a child with the same file may destroy them too",
        move || {
            let id = device.create_signal(false)?;
            let mut child = child(device, &["--child", "destroy", &id.to_string()])?;
            same("child", child.wait()?.code(), Some(0))?;
            refused("WAIT", device.wait_signal(id, 0), Status::NOT_FOUND)
        },
    );
    suite.test("SIGKILL ends a crowd of waiters at once", move || {
        for _ in 0..3 {
            let mut crowd = child(device, &["--child", "crowd", "0"])?;
            same("child", line(&mut crowd)?.as_str(), "waiting")?;
            let begin = Stopwatch::start();
            crowd.kill()?;
            crowd.wait()?;
            let took = begin.elapsed();
            ensure!(took < Duration::from_secs(2), "took {took:?} to die");
        }
        Ok(())
    });
    suite.test(
        format!("{count} signals of one process: refused at the limit, nobody else is harmed"),
        move || {
            let before = system::settled_free()?;
            let begin = Stopwatch::start();
            let mut other = child(device, &["--child", "many", &count.to_string()])?;
            let id = device.create_signal(false)?;
            let mut longest = Duration::ZERO;
            let mut rounds = 0;
            while other.try_wait()?.is_none() {
                let begin = Stopwatch::start();
                device.commit_queue(Queue::new().signal(id))?;
                device.wait_signal(id, 10_000)?;
                longest = longest.max(begin.elapsed());
                rounds += 1;
                thread::sleep(Duration::from_millis(20));
            }
            let took = begin.elapsed();
            let said = line(&mut other)?;
            same("child", other.wait()?.code(), Some(0)).context(said.clone())?;
            println!(
                "# made in {said}, all in {} ms; meanwhile {rounds} round trips here, the longest {} ms",
                took.as_millis(),
                longest.as_millis()
            );
            let bound = Duration::from_millis(1000 + u64::from(count) * 2);
            ensure!(took < bound, "took {took:?}");
            ensure!(longest < Duration::from_secs(2), "a round trip took {longest:?}");
            device.destroy_signal(id)?;
            let noise = 2048 + system::quarantine()?;
            let back = || Ok(system::settled_free()? + noise >= before);
            harness::eventually("memory comes back", Duration::from_secs(20), back)
        },
    );
    suite.test(
        "a Unix signal with SA_RESTART does not end an infinite wait",
        move || {
            let id = device.create_signal(false)?;
            let mut waiter = child(device, &["--child", "wait", &id.to_string()])?;
            same("child", line(&mut waiter)?.as_str(), "waiting")?;
            for _ in 0..3 {
                thread::sleep(Duration::from_millis(60));
                kill_process(pid(&waiter)?, Signal::USR1)?;
            }
            thread::sleep(Duration::from_millis(60));
            ensure!(waiter.try_wait()?.is_none(), "the child has ended");
            device.set_signal(id, true)?;
            same("child", line(&mut waiter)?.as_str(), "woken, handler ran")?;
            same("child", waiter.wait()?.code(), Some(0))?;
            Ok(device.destroy_signal(id)?)
        },
    );
    suite.test(
        "SIGKILL ends an infinite wait at once, and what the process had comes back",
        move || {
            let used = system::ProcGc::used_now;
            let before = used()?;
            for _ in 0..3 {
                let mut holder = child(device, &["--child", "hold", "0"])?;
                same("child", line(&mut holder)?.as_str(), "waiting")?;
                ensure!(
                    used()?[0] > before[0],
                    "the child's memory does not show: {:?}",
                    used()?
                );
                thread::sleep(Duration::from_millis(30));
                let begin = Stopwatch::start();
                holder.kill()?;
                holder.wait()?;
                let took = begin.elapsed();
                ensure!(
                    took < Duration::from_secs(1),
                    "the process took {took:?} to die"
                );
                settles("KiB used", before, used)?;
            }
            Ok(())
        },
    );
    suite.test(
        "a signal that is destroyed while a queue holds it is no trouble",
        move || {
            for _ in 0..20 {
                let id = device.create_signal(false)?;
                device.commit_queue(Queue::new().signal(id))?;
                device.destroy_signal(id)?;
            }
            Ok(device.stall()?)
        },
    );
    suite.test(
        "processes that end with a thousand signals cost no memory",
        move || {
            let leave = || -> Result<()> {
                let status = child(device, &["--child", "leave", "0"])?.wait()?;
                same("child", status.code(), Some(0))
            };
            // A leak takes 4 MiB in ten rounds. The kernel's caches vary by 1 MiB when every slab object is debugged.
            for _ in 0..4 {
                leave()?;
            }
            let before = system::settled_free()?;
            for _ in 0..10 {
                leave()?;
            }
            let noise = 2048 + system::quarantine()?;
            let back = || Ok(system::settled_free()? + noise >= before);
            harness::eventually("memory comes back", Duration::from_secs(20), back)
        },
    );
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == "--child") {
        return harness::exit(child_main(&words[1..]));
    }
    harness::program(|| {
        let options = Options::parse(&["count"])?;
        let count = options.number("count", 17_000)?;
        let device = Device::open()?;
        let mut suite = Suite::new();
        basic_tests(&mut suite, &device);
        thread_tests(&mut suite, &device);
        process_tests(&mut suite, &device, count);
        suite.run()
    })
}
