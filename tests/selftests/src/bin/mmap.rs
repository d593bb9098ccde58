// SPDX-License-Identifier: GPL-2.0-only
//! mmap of the pool.

use std::process::ExitCode;

use anyhow::bail;
use anyhow::Result;
use galcore_client::device::Device;
use galcore_client::device::Memory;
use galcore_client::uapi::surface;
use galcore_client::uapi::Pool;
use galcore_client::Error;
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

fn main() -> ExitCode {
    harness::program(|| {
        let device = &Device::open()?;
        let size = device.video_memory()?.contiguous_size as usize;
        let mut suite = Suite::new();
        suite.test("the whole pool can be mapped at offset 0", || {
            let pool = device.map(size, 0)?;
            pool.write(0, 0x600d_0001);
            pool.write(size - 4, 0x600d_0002);
            same("first word", pool.read(0), 0x600d_0001)?;
            same("last word", pool.read(size - 4), 0x600d_0002)
        });
        suite.test(
            "a part of it can be mapped, and shows the same memory",
            || {
                let whole = device.map(size, 0)?;
                let part = device.map(0x1_0000, 0)?;
                part.write(0xfff0, 0x1234_5678);
                same("the same word", whole.read(0xfff0), 0x1234_5678)?;
                let other = Device::open()?.map(size, 0)?;
                same("through another file", other.read(0xfff0), 0x1234_5678)
            },
        );
        suite.test("more than the pool answers ENOTTY", || {
            for bytes in [size + 1, size + 4096, size * 2] {
                refused(&format!("{bytes:#x} bytes"), device.map(bytes, 0))?;
            }
            Ok(())
        });
        suite.test("other offsets answer ENOTTY", || {
            let base = system::told("contiguousBase").unwrap_or(0x4000_0000);
            for offset in [
                0x1000,
                0x1_0000,
                0x4000_0000,
                0x1000_0000,
                base + size as u64,
            ] {
                refused(&format!("offset {offset:#x}"), device.map(0x1000, offset))?;
            }
            Ok(())
        });
        suite.test("LOCK gives addresses in the file's last mapping", || {
            let device = Device::open()?;
            let first = device.map(size, 0)?;
            let taken = device.allocate(4096, 64, surface::BITMAP, Pool::SYSTEM)?;
            let there = device.lock(taken)?.logical;
            let second = device.map(size, 0)?;
            let here = device.lock(taken)?.logical;
            same(
                "place in the mapping",
                here - second.address(),
                there - first.address(),
            )?;
            let offset = (here - second.address()) as usize;
            second.write(offset, 0xabcd_ef01);
            same("the same word", first.read(offset), 0xabcd_ef01)
        });
        suite.test(
            "a second file's mapping does not move the first one's addresses",
            || {
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
        suite.test("a mapping outlives the descriptor", || {
            let pool = Device::open()?.map(size, 0)?;
            pool.write(64, 0x0ff5_e7ff);
            same("word", pool.read(64), 0x0ff5_e7ff)
        });
        suite.test("a forked child does not get the mapping", || {
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
        suite.test("mappings come and go", || {
            for _ in 0..5 {
                device.map(size, 0)?;
                device.map(4096, 0)?;
            }
            Ok(())
        });
        suite.run()
    })
}
