// SPDX-License-Identifier: GPL-2.0-only
//! /proc/driver/gc: Dove's format, line by line, with correct numbers.

use std::os::unix::fs::PermissionsExt;
use std::process::ExitCode;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::sys::Region;
use galcore_client::uapi::surface;
use galcore_client::uapi::Pool;
use galcore_client::Client;
use galcore_client::Device;
use galcore_client::Queue;
use galcore_selftests::control::Control;
use galcore_selftests::fixture::Paint;
use galcore_selftests::foreign::Foreign;
use galcore_selftests::harness;
use galcore_selftests::harness::same;
use galcore_selftests::harness::settles;
use galcore_selftests::harness::Suite;
use galcore_selftests::system::ProcGc;
use gpu_control::Board;

const MIB: u32 = 1 << 20;

fn used() -> Result<[u64; 3]> {
    ProcGc::used_now()
}

/// The hexadecimal number after `start`, and the rest of the line.
fn register<'a>(line: &'a str, start: &str) -> Result<(u32, &'a str)> {
    let rest = line
        .strip_prefix(start)
        .with_context(|| format!("{line:?} does not begin with {start:?}"))?;
    let digits = rest
        .find(|c: char| !c.is_ascii_hexdigit())
        .unwrap_or(rest.len());
    ensure!(digits >= 2, "{line:?}: wanted at least two digits");
    ensure!(
        rest[..digits].chars().all(|c| !c.is_ascii_uppercase()),
        "{line:?}: wanted small letters"
    );
    Ok((u32::from_str_radix(&rest[..digits], 16)?, &rest[digits..]))
}

fn format_tests(suite: &mut Suite<'_>) {
    suite.test("it is a file of mode 0644 that fits one read", || {
        let mode = std::fs::metadata(ProcGc::PATH)?.permissions().mode();
        same("mode", mode & 0o7777, 0o644)?;
        let text = std::fs::read_to_string(ProcGc::PATH)?;
        ensure!(text.len() <= 1000, "{} bytes", text.len());
        ensure!(text.ends_with('\n'), "no newline at the end");
        Ok(())
    });
    suite.test("the lines are those of the Dove driver", || {
        let found = ProcGc::read()?.lines;
        for line in &found {
            println!("# {line}");
        }
        ensure!(found.len() == 9, "{} lines", found.len());
        same(
            "line 1",
            found[0].as_str(),
            "Marvell Technology Group Ltd(GC Ver0.8.0.3184-1)",
        )?;
        ensure!(
            found[1] == "RELEASE VERSION" || found[1] == "DEBUG VERSION",
            "line 2: {:?}",
            found[1]
        );
        let (idle, rest) = register(&found[2], "idle register: 0x")?;
        ensure!(
            rest == ", hardware is idle" || rest == ", hardware is busy",
            "line 3: {:?}",
            found[2]
        );
        ensure!(idle != 0, "line 3: nothing at all is idle");
        if Control::open()?.board() == Some(Board::Dove) {
            // The same as on a CuBox.
            same("line 3", idle & !1, 0xfe)?;
        }
        let (_, rest) = register(&found[3], "clockControl register: 0x")?;
        same("end of line 4", rest, "")?;
        same(
            "line 5",
            found[4].as_str(),
            "print mode:\tPid(0) Reset(1) DumpCmdBuf(0)",
        )?;
        same("line 6", found[5].as_str(), "GC memory usage profile:")?;
        let total = ProcGc::read()?.reserved()?;
        same(
            "line 7",
            found[6].as_str(),
            format!("Total reserved video memory: {total} KB").as_str(),
        )?;
        let [pool, contiguous, virtual_pool] = ProcGc::read()?.used()?;
        let wanted = format!(
            "Used video mem: {pool} KB\tcontiguous: {contiguous} KB\tvirtual: {virtual_pool} KB"
        );
        same("line 8", found[7].as_str(), wanted.as_str())?;
        if let Some(line) = found.get(8) {
            let start = "MMU Entries usage(PageCount): Total(";
            ensure!(
                line.starts_with(start) && line.ends_with(')'),
                "line 9: {line:?}"
            );
            ensure!(line.contains("), Used("), "line 9: {line:?}");
        }
        Ok(())
    });
}

fn number_tests<'a>(suite: &mut Suite<'a>, device: &'a Device) {
    suite.test("the reserved memory is the pool's size", move || {
        let size = device.video_memory()?.contiguous_size;
        same("KiB", ProcGc::read()?.reserved()?, size / 1024)
    });
    suite.test("nodes of the pool count while they are there", move || {
        let before = used()?;
        let first = device.allocate(MIB, 64, surface::BITMAP, Pool::SYSTEM)?;
        settles("with 1 MiB", [before[0] + 1024, before[1], before[2]], used)?;
        let second = device.allocate(3 * MIB, 64, surface::DEPTH, Pool::SYSTEM)?;
        settles("with 4 MiB", [before[0] + 4096, before[1], before[2]], used)?;
        device.free(first)?;
        settles("with 3 MiB", [before[0] + 3072, before[1], before[2]], used)?;
        device.lock(second)?;
        device.free(second)?;
        settles(
            "freed but locked",
            [before[0] + 3072, before[1], before[2]],
            used,
        )?;
        device.unlock(second)?;
        settles("with nothing", before, used)
    });
    suite.test(
        "page-backed nodes and buffers count as contiguous",
        move || {
            let before = used()?;
            let node = device.allocate(MIB, 64, surface::BITMAP, Pool::CONTIGUOUS)?;
            settles("node", [before[0], before[1] + 1024, before[2]], used)?;
            let contiguous = device.allocate_contiguous(0x8000)?;
            settles("and buffer", [before[0], before[1] + 1056, before[2]], used)?;
            let non_paged = device.allocate_non_paged(0x4000)?;
            settles(
                "and non-paged buffer",
                [before[0], before[1] + 1072, before[2]],
                used,
            )?;
            device.free(node)?;
            device.free_contiguous(&contiguous)?;
            device.free_non_paged(&non_paged)?;
            settles("with nothing", before, used)
        },
    );
    suite.test(
        "VIRTUAL nodes and user memory count behind the MMU",
        move || {
            let now = || Ok((used()?, ProcGc::mmu_used_now()?));
            let before = now()?;
            let ([pool, contiguous, scattered], entries) = before;
            let node = device.allocate(MIB + 1, 64, surface::BITMAP, Pool::VIRTUAL)?;
            let with_node = ([pool, contiguous, scattered + 1028], entries + 257);
            settles("node", with_node, now)?;
            let own = Region::anonymous(16 * 4096)?;
            let mapping = device.map_user(own.address() + 1, 4096)?;
            settles("and user memory", (with_node.0, entries + 259), now)?;
            device.unmap_user(&mapping)?;
            settles("without it", with_node, now)?;
            device.free(node)?;
            settles("with nothing", before, now)?;
            let (total, _) = ProcGc::read()?.mmu()?;
            same("entries in all", total, (1 << 19) - (1 << 14))
        },
    );
    suite.test(
        "what a queue frees stops counting when the queue has run",
        move || {
            let before = used()?;
            let node = device.allocate(MIB, 64, surface::BITMAP, Pool::SYSTEM)?;
            let buffer = device.allocate_contiguous(0x8000)?;
            device.commit_queue(Queue::new().free(node).free_contiguous(&buffer))?;
            device.stall()?;
            settles("as before", before, used)
        },
    );
    suite.test(
        "another process's memory counts, and stops counting when it ends",
        move || {
            let before = used()?;
            let context = device.attach()?.context;
            let of_context = used()?[1] - before[1];
            println!("# a context: {of_context} KiB");
            device.detach(context)?;
            settles("without the context", before, used)?;
            let foreign = Foreign::start()?;
            // 64 pages of each kind, and 64 contexts.
            let contiguous = before[1] + 512 + 64 * of_context;
            settles("with it", [before[0] + 256, contiguous, before[2]], used)?;
            drop(foreign);
            settles("as before", before, used)
        },
    );
}

fn main() -> ExitCode {
    harness::program(|| {
        let device = Device::open()?;
        let mut suite = Suite::new();
        format_tests(&mut suite);
        number_tests(&mut suite, &device);
        suite.test("after drawing the hardware is idle", || {
            let mut paint = Paint::new()?;
            for round in 0..20 {
                paint.prove(round)?;
            }
            let line = ProcGc::read()?.lines[2].clone();
            let (idle, rest) = register(&line, "idle register: 0x")?;
            same("state", rest, ", hardware is idle")?;
            same(
                "idle bits of all modules but the front end",
                idle & 0x7e,
                0x7e,
            )
        });
        suite.test("reading does not disturb drawing", || {
            let mut paint = Paint::of(Client::start()?)?;
            std::thread::scope(|scope| {
                let reader = scope.spawn(|| -> Result<()> {
                    for _ in 0..200 {
                        ProcGc::read()?.used()?;
                    }
                    Ok(())
                });
                for round in 0..20 {
                    paint.prove(round)?;
                }
                reader.join().expect("no panic")
            })
        });
        suite.run()
    })
}
