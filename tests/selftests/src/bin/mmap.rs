// SPDX-License-Identifier: GPL-2.0-only
//! mmap of the pool: the window shows only memory that the process owns. `--shared`: the module was loaded with
//! `sharedPool=1`, and the window shows the whole pool.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitCode;
use std::time::Duration;
use std::time::Instant;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::device::Device;
use galcore_client::device::Memory;
use galcore_client::device::Node;
use galcore_client::raw::Area;
use galcore_client::sys::Region;
use galcore_client::uapi::surface;
use galcore_client::uapi::Pool;
use galcore_client::Error;
use galcore_selftests::foreign::Foreign;
use galcore_selftests::harness;
use galcore_selftests::harness::same;
use galcore_selftests::harness::Suite;
use galcore_selftests::system;

/// Fails unless the mapping was refused with ENOTTY.
fn refused(what: &str, result: Result<Memory, Error>) -> Result<()> {
    match result {
        Err(Error::Map(error)) => same(what, error.raw_os_error(), Some(libc::ENOTTY)),
        Err(error) => bail!("{what}: {error}"),
        Ok(_) => bail!("{what}: mapped, wanted ENOTTY"),
    }
}

/// The signal that kills another process with `--touch WHERE`, or `None` if it survives.
fn touch(place: &str) -> Result<Option<i32>> {
    let output = system::again(&["--touch", place])?.output()?;
    match (output.status.signal(), output.status.code()) {
        (None, Some(0)) => Ok(None),
        (Some(signal), _) => Ok(Some(signal)),
        _ => bail!("{place}: {}", String::from_utf8_lossy(&output.stdout)),
    }
}

/// Touches a place of the pool that the process may not own.
fn touching(place: &str) -> Result<()> {
    let device = Device::open()?;
    let pool = device.map_pool()?;
    let node = |bytes| device.allocate(bytes, 64, surface::BITMAP, Pool::SYSTEM);
    let offset = |node: Node| -> Result<usize> {
        Ok((device.lock(node)?.logical - pool.address()) as usize)
    };
    match place {
        "own" => {
            let at = offset(node(3 * 4096)?)?;
            pool.write(at + 3 * 4096 - 4, 1);
        }
        // Accessible from ALLOCATE on.
        "unlocked" => {
            let taken = node(4096)?;
            let at = offset(taken)?;
            device.unlock(taken)?;
            pool.write(at, 1);
        }
        "behind" => {
            let at = offset(node(3 * 4096)?)?;
            pool.write(at, 1);
            pool.write(at + 3 * 4096, 1);
        }
        "before" => {
            let [first, second] = [node(4096)?, node(4096)?];
            let at = offset(second)?.max(offset(first)?);
            let [lower, upper] = if offset(first)? < at {
                [first, second]
            } else {
                [second, first]
            };
            for node in [first, second] {
                while device.unlock(node).is_ok() {}
            }
            device.lock(upper)?;
            device.free(lower)?;
            device.stall()?;
            // The memory is hidden only after the GPU has finished with it.
            std::thread::sleep(std::time::Duration::from_millis(100));
            pool.write(at, 1);
            pool.write(at - 4096, 1);
        }
        "freed" => {
            let taken = node(4096)?;
            let at = offset(taken)?;
            pool.write(at, 1);
            device.unlock(taken)?;
            device.free(taken)?;
            device.stall()?;
            // The memory is hidden only after the GPU has finished with it.
            std::thread::sleep(std::time::Duration::from_millis(100));
            pool.write(at, 2);
        }
        "freed-locked" => {
            let taken = node(4096)?;
            let at = offset(taken)?;
            device.free(taken)?;
            device.stall()?;
            std::thread::sleep(std::time::Duration::from_millis(100));
            pool.write(at, 2);
        }
        number => {
            let at: usize = number.parse()?;
            pool.read(at);
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [first, place] = &words[..] {
        if first == "--touch" {
            return harness::exit(touching(place));
        }
    }
    let shared = words.iter().any(|word| word == "--shared");
    harness::program(|| {
        let device = &Device::open()?;
        let size = device.video_memory()?.contiguous_size as usize;
        let mut suite = Suite::new();
        mapping_tests(&mut suite, device, size);
        lock_tests(&mut suite, device, size);
        if shared {
            shared_tests(&mut suite, size);
        } else {
            window_tests(&mut suite, device, size);
        }
        suite.run()
    })
}

fn mapping_tests<'a>(suite: &mut Suite<'a>, device: &'a Device, size: usize) {
    suite.test("the whole pool can be mapped at offset 0", move || {
        let pool = device.map(size, 0)?;
        let taken = device.allocate(0x1_0000, 64, surface::BITMAP, Pool::SYSTEM)?;
        let memory = device.memory(taken, device.lock(taken)?, &pool)?;
        memory.write(0, 0x600d_0001);
        memory.write(0xfffc, 0x600d_0002);
        let found = (memory.read(0), memory.read(0xfffc));
        same("words", found, (0x600d_0001, 0x600d_0002))?;
        device.unlock(taken)?;
        Ok(device.free(taken)?)
    });
    suite.test(
        "a part of it can be mapped, and shows the same memory",
        move || {
            let whole = device.map(size, 0)?;
            let taken = device.allocate(0x1_0000, 64, surface::UNKNOWN, Pool::SYSTEM)?;
            let at = (device.lock(taken)?.logical - whole.address()) as usize;
            let part = device.map(at.next_multiple_of(4096) + 0x1_0000, 0)?;
            part.write(at + 0xfff0, 0x1234_5678);
            same("the same word", whole.read(at + 0xfff0), 0x1234_5678)?;
            let other = Device::open()?.map(size, 0)?;
            same("through another file", other.read(at + 0xfff0), 0x1234_5678)?;
            device.unlock(taken)?;
            Ok(device.free(taken)?)
        },
    );
    suite.test("more than the pool answers ENOTTY", move || {
        for bytes in [size + 1, size + 4096, size * 2] {
            refused(&format!("{bytes:#x} bytes"), device.map(bytes, 0))?;
        }
        Ok(())
    });
    suite.test("other offsets answer ENOTTY", move || {
        let base = system::told("contiguousBase").unwrap_or(0x4000_0000);
        for offset in [
            0x1000,
            0x1_0000,
            0x1000_0000,
            0x4000_0000,
            base,
            base + size as u64,
            0xffff_f000,
            1 << 35,
        ] {
            refused(&format!("offset {offset:#x}"), device.map(0x1000, offset))?;
        }
        Ok(())
    });
    suite.test("a private mapping answers ENOTTY", move || {
        let result = Region::map_private(device, 4096, 0);
        same(
            "errno",
            result.err().and_then(|error| error.raw_os_error()),
            Some(libc::ENOTTY),
        )
    });
    suite.test(
        "another process's buffer cannot be mapped by its address",
        move || {
            let foreign = Foreign::start()?;
            let base = u64::from(device.base_address()?);
            let there = u64::from(foreign.buffer_address()) + base;
            refused("its address", device.map(4096, there))?;
            // Other pages near it are refused as well.
            for page in 0..512 {
                let offset = (there & !0x1f_ffff) + page * 4096;
                refused(&format!("offset {offset:#x}"), device.map(4096, offset))?;
            }
            Ok(())
        },
    );
    suite.test("mappings come and go", move || {
        for bytes in [size, 4096] {
            let begin = Instant::now();
            for _ in 0..100 {
                device.map(bytes, 0)?;
            }
            println!(
                "# {} us for {bytes:#x} bytes",
                begin.elapsed().as_micros() / 100
            );
        }
        Ok(())
    });
}

fn lock_tests<'a>(suite: &mut Suite<'a>, device: &'a Device, size: usize) {
    suite.test(
        "LOCK gives addresses in the file's last mapping",
        move || {
            let device = Device::open()?;
            let first = device.map(size, 0)?;
            let taken = device.allocate(4096, 64, surface::BITMAP, Pool::SYSTEM)?;
            let there = device.lock(taken)?.logical;
            let second = device.map(size, 0)?;
            let here = device.lock(taken)?.logical;
            let offset = (there - first.address()) as usize;
            same(
                "place in the mapping",
                here - second.address(),
                offset as u64,
            )?;
            second.write(offset, 0xabcd_ef01);
            same("the same word", first.read(offset), 0xabcd_ef01)?;
            drop(second);
            same("with the first alone", device.lock(taken)?.logical, there)
        },
    );
    suite.test(
        "a second file's mapping does not move the first one's addresses",
        move || {
            let device = Device::open()?;
            let pool = device.map(size, 0)?;
            let taken = device.allocate(4096, 64, surface::BITMAP, Pool::SYSTEM)?;
            let there = device.lock(taken)?.logical;
            let second = Device::open()?;
            let view = second.map(size, 0)?;
            same(
                "with the second mapping",
                device.lock(taken)?.logical,
                there,
            )?;
            drop(view);
            drop(second);
            same("after it went", device.lock(taken)?.logical, there)?;
            pool.write((there - pool.address()) as usize, 1);
            Ok(())
        },
    );
    suite.test(
        "a mapping that does not reach the node is passed over",
        move || {
            let device = Device::open()?;
            let whole = device.map(size, 0)?;
            let block = device.allocate(0x1_0000, 64, surface::UNKNOWN, Pool::SYSTEM)?;
            let taken = device.allocate(4096, 64, surface::UNKNOWN, Pool::SYSTEM)?;
            let place = device.lock(taken)?.logical;
            let short = device.map(4096, 0)?;
            same("address", device.lock(taken)?.logical, place)?;
            drop(short);
            drop(whole);
            device.free(block)?;
            Ok(())
        },
    );
    suite.test("no view can be moved", move || {
        let device = Device::open()?;
        for pool in [Pool::SYSTEM, Pool::CONTIGUOUS, Pool::VIRTUAL] {
            let node = device.allocate(4096, 64, surface::BITMAP, pool)?;
            let mut view = Area::of_driver(device.lock(node)?.logical, 4096)?;
            ensure!(view.move_away().is_err(), "{pool} was moved");
            device.unlock(node)?;
            device.free(node)?;
        }
        Ok(())
    });
    suite.test("a mapping outlives the descriptor", move || {
        let device = Device::open()?;
        let pool = device.map(size, 0)?;
        let taken = device.allocate(4096, 64, surface::BITMAP, Pool::SYSTEM)?;
        let memory = device.memory(taken, device.lock(taken)?, &pool)?;
        memory.write(64, 0x0ff5_e7ff);
        drop(device);
        same("word", memory.read(64), 0x0ff5_e7ff)?;
        memory.write(128, 1);
        Ok(())
    });
    suite.test("a forked child does not get the mapping", move || {
        let pool = device.map(size, 0)?;
        let Ok(text) = std::fs::read_to_string("/proc/self/smaps") else {
            return harness::skip("no /proc/self/smaps");
        };
        let start = format!("{:08x}-", pool.address());
        let flags = text
            .lines()
            .skip_while(|line| !line.starts_with(&start))
            .find(|line| line.starts_with("VmFlags:"));
        let Some(flags) = flags else {
            return harness::skip("no VmFlags in /proc/self/smaps");
        };
        let has = |flag| flags.split(' ').any(|word| word == flag);
        same(
            &format!("dontcopy and dontexpand in {flags:?}"),
            (has("dc"), has("de")),
            (true, true),
        )
    });
}

fn window_tests<'a>(suite: &mut Suite<'a>, device: &'a Device, size: usize) {
    for (place, what) in [
        ("own", "the last word of an own node is there"),
        ("unlocked", "a node that is not locked is there"),
        ("freed-locked", "a freed node that is still locked is there"),
    ] {
        suite.test(what, move || same(place, touch(place)?, None));
    }
    for (place, what) in [
        ("behind", "the page behind an own node is SIGBUS"),
        ("before", "the page before an own node is SIGBUS"),
        ("freed", "a freed node is SIGBUS"),
        ("0", "the pool's first page is SIGBUS"),
    ] {
        suite.test(what, move || same(place, touch(place)?, Some(libc::SIGBUS)));
    }
    suite.test("the pool's last page is SIGBUS", move || {
        same(
            "last page",
            touch(&(size - 4096).to_string())?,
            Some(libc::SIGBUS),
        )
    });
    suite.test(
        "another process's node is SIGBUS, and stays what it is",
        move || {
            let pool = device.map(size, 0)?;
            let taken = device.allocate(0x4000, 64, surface::BITMAP, Pool::SYSTEM)?;
            let memory = device.memory(taken, device.lock(taken)?, &pool)?;
            memory.fill(0x0715_5ec2);
            let at = memory.address() - pool.address();
            for offset in [0, 4096, 0x3ffc] {
                let found = touch(&(at + offset).to_string())?;
                same(&format!("at {offset:#x}"), found, Some(libc::SIGBUS))?;
            }
            same("contents", memory.find_other_than(0x0715_5ec2), None)?;
            device.unlock(taken)?;
            Ok(device.free(taken)?)
        },
    );
    suite.test("small nodes of two processes share no page", move || {
        let pool = device.map(size, 0)?;
        let mut taken = Vec::new();
        for _ in 0..8 {
            let node = device.allocate(64, 1, surface::BITMAP, Pool::SYSTEM)?;
            let at = device.lock(node)?.logical - pool.address();
            same("place in the page", at % 4096, 0)?;
            taken.push(node);
        }
        for node in taken {
            device.unlock(node).and_then(|_| device.free(node))?;
        }
        Ok(())
    });
    suite.test("touching does not flood the kernel log", move || {
        // Limit for all processes of one user together, per window of at least this length.
        const LINES: usize = 30;
        const PERIOD: Duration = Duration::from_secs(5);
        const PROCESSES: usize = 80;
        let mut log = system::KernelLog::from_now()?;
        let begin = Instant::now();
        for _ in 0..PROCESSES {
            touch("0")?;
        }
        let periods = begin.elapsed().as_secs() / PERIOD.as_secs();
        let lines = log.lines()?;
        let ours = lines.iter().filter(|line| line.text.contains("touches"));
        let count = ours.count();
        println!("# {count} lines for {PROCESSES} processes");
        // One window may have begun earlier, and one may end later.
        let most = LINES * (periods as usize + 2);
        anyhow::ensure!(count <= most, "{count} lines, wanted at most {most}");
        Ok(())
    });
}

fn shared_tests(suite: &mut Suite<'_>, size: usize) {
    suite.test(
        "sharedPool=1: every process sees all of the pool",
        move || {
            for place in ["0", "behind", "freed"] {
                same(place, touch(place)?, None)?;
            }
            same("last page", touch(&(size - 4096).to_string())?, None)?;
            let device = Device::open()?;
            let pool = device.map(size, 0)?;
            pool.write(0, 0x600d_0001);
            pool.write(size - 4, 0x600d_0002);
            same("first word", pool.read(0), 0x600d_0001)?;
            same("last word", pool.read(size - 4), 0x600d_0002)
        },
    );
    suite.test("sharedPool=1: nodes need no page of their own", move || {
        let device = Device::open()?;
        let pool = device.map(size, 0)?;
        let first = device.allocate(256, 64, surface::BITMAP, Pool::SYSTEM)?;
        let second = device.allocate(256, 64, surface::BITMAP, Pool::SYSTEM)?;
        let apart = device.lock(second)?.logical as i64 - device.lock(first)?.logical as i64;
        same("bytes from one to the next", apart.abs(), 256)?;
        pool.read(0);
        Ok(())
    });
    suite.test(
        "sharedPool=1: fresh memory is zeros, whoever wrote there",
        move || {
            let device = Device::open()?;
            let pool = device.map(size, 0)?;
            let taken = device.allocate(0x1_0000, 64, surface::BITMAP, Pool::SYSTEM)?;
            let memory = device.memory(taken, device.lock(taken)?, &pool)?;
            memory.fill(7);
            device.unlock(taken).context("UNLOCK")?;
            device.free(taken)?;
            device.stall()?;
            let again = device.allocate(0x1_0000, 64, surface::BITMAP, Pool::SYSTEM)?;
            let memory = device.memory(again, device.lock(again)?, &pool)?;
            same("word not 0", memory.find_other_than(0), None)
        },
    );
}
