// SPDX-License-Identifier: GPL-2.0-only
//! Draws into fbdev's memory, which the driver does not own. With `allowedRanges=framebuffer`, only a process that has
//! mapped the framebuffer may draw there. `--named`: `allowedRanges` lists its addresses as numbers, and every process
//! may draw there. `--closed`: `allowedRanges` has neither, and no process may.

use std::fs::File;
use std::fs::OpenOptions;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::device::Memory;
use galcore_client::device::Node;
use galcore_client::raw::Area;
use galcore_client::raw::Kind;
use galcore_client::sys::Region;
use galcore_client::uapi::surface;
use galcore_client::uapi::Command;
use galcore_client::uapi::MapUserMemory;
use galcore_client::uapi::Pool;
use galcore_client::uapi::Status;
use galcore_client::Abi;
use galcore_client::Client;
use galcore_client::Device;
use galcore_client::Rect;
use galcore_client::Stream;
use galcore_selftests::harness;
use galcore_selftests::harness::eventually;
use galcore_selftests::harness::refused;
use galcore_selftests::harness::same;
use galcore_selftests::harness::Suite;
use galcore_selftests::other;
use galcore_selftests::other::Other;
use galcore_selftests::video::surface_at;
use galcore_selftests::video::Screen;
use rustix::fs::flock;
use rustix::fs::FlockOperation;

/// Bytes of the visible picture: 256 x 128 pixels.
const SHOWN: usize = 256 * 128 * 4;

/// Opens the screen, which has two halves.
fn screen() -> Result<Screen> {
    let screen = Screen::open()?;
    same("its bytes", screen.bytes, 2 * SHOWN)?;
    Ok(screen)
}

/// A client and the screen.
struct Bench {
    client: Client,
    screen: Screen,
}

impl Bench {
    fn new(abi: &'static Abi) -> Result<Self> {
        Ok(Self {
            client: Client::with_device(Device::open_as(abi, true)?)?,
            screen: screen()?,
        })
    }

    fn device(&self) -> &Device {
        self.client.device()
    }

    /// The screen's GPU address.
    fn address(&self) -> u32 {
        self.screen.physical - self.client.base_address()
    }

    /// Fills the memory `offset` bytes after the start of the screen with `colour`. Returns the status.
    fn draw(&mut self, offset: u32, colour: u32) -> Result<Status> {
        // Only its size is used.
        let memory = Memory::new(Region::anonymous(SHOWN)?);
        let surface = surface_at(self.address().wrapping_add(offset), memory)?;
        let engine = self.client.engine();
        let mut stream = Stream::new();
        let all = Rect::new(0, 0, surface.width, surface.height);
        engine.fill(&mut stream, &surface, all, colour);
        stream.flush(engine.pipe());
        match self.client.run(engine.pipe(), &stream) {
            Ok(()) => Ok(Status::OK),
            Err(error) => error.status().ok_or_else(|| error.into()),
        }
    }

    fn draws(&mut self, what: &str, memory: &Memory, offset: usize, colour: u32) -> Result<()> {
        expect_drawn(what, memory, offset, colour, || {
            Ok(self.draw(offset as u32, colour)?.0.to_string())
        })
    }

    /// Sends MAP_USER_MEMORY.
    fn map(&self, memory: u64, physical: u32, size: u64) -> Result<(Status, MapUserMemory)> {
        let asked = MapUserMemory {
            memory,
            physical,
            size,
            ..Default::default()
        };
        Ok(self.device().send(Command::MAP_USER_MEMORY, &asked)?)
    }

    /// Fails unless commands and MAP_USER_MEMORY are refused. `user`: a user address to try as well.
    fn is_closed(&mut self, what: &str, user: Option<u64>) -> Result<()> {
        same(what, self.draw(0, 0xdead_beef)?, Status::INVALID_DATA)?;
        let (physical, bytes) = (self.screen.physical, self.screen.bytes as u64);
        let found = self.map(user.unwrap_or(0x1_0000), physical, bytes)?.0;
        same(what, found, Status::INVALID_ARGUMENT)?;
        if let Some(user) = user {
            let found = self.map(user, u32::MAX, bytes)?.0;
            same(what, found, Status::OUT_OF_RESOURCES)?;
            if self.device().abi().has("WRAP_USER_MEMORY") {
                let found = self.device().wrap_memory(user, bytes)?.0;
                same(what, found, Status::OUT_OF_RESOURCES)?;
            }
        }
        Ok(())
    }

    /// MAP_USER_MEMORY of parts of the mapping at `user`, by user address and by physical address.
    fn can_be_mapped(&self, user: u64) -> Result<()> {
        let end = self.screen.bytes as u64;
        for (offset, bytes) in [(0, end), (0, 1), (end - 1, 1), (0x1234, 0x4321)] {
            for physical in [u32::MAX, self.screen.physical + offset as u32] {
                let what = format!("MAP of {bytes:#x} at {offset:#x}, physical {physical:#x}");
                let (status, answer) = self.map(user + offset, physical, bytes)?;
                same(&what, status, Status::OK)?;
                same(&what, answer.address, self.address() + offset as u32)?;
                self.device().unmap_user(&answer)?;
                refused(
                    "UNMAP twice",
                    self.device().unmap_user(&answer),
                    Status::NOT_FOUND,
                )?;
            }
        }
        for (offset, bytes) in [(0, end + 1), (end - 1, 2), (end, 1)] {
            let what = format!("MAP of {bytes:#x} at {offset:#x}");
            let physical = self.screen.physical + offset as u32;
            let found = self.map(user, physical, bytes)?.0;
            same(&what, found, Status::INVALID_ARGUMENT)?;
        }
        Ok(())
    }
}

/// WRAP_USER_MEMORY of the second screen. The newest generations have it in place of MAP_USER_MEMORY.
fn wrapped(bench: &mut Bench, memory: &Memory) -> Result<()> {
    let physical = u64::from(bench.screen.physical) + SHOWN as u64;
    for (physical, colour) in [(u64::MAX, 0x0102_0304), (physical, 0x0506_0708)] {
        let device = bench.device();
        let fields = [
            (
                "desc.flag",
                device.abi().values["ALLOC_FLAG_USERMEMORY"].into(),
            ),
            ("desc.logical", memory.address() + SHOWN as u64),
            ("desc.physical", physical),
            ("desc.size", SHOWN as u64),
        ];
        let wrap = || device.ask("WRAP_USER_MEMORY", &fields, "node");
        let ((status, handle), second) = (wrap()?, wrap()?);
        same("WRAP", status, Status::OK)?;
        same("WRAP once more", second.0, Status::OK)?;
        let node = |handle| Node {
            handle,
            pool: Pool::VIRTUAL,
            bytes: SHOWN as u32,
            surface_type: surface::BITMAP,
        };
        let place = device.lock(node(handle))?;
        same("where it is", place.logical, fields[1].1)?;
        same("its address", place.address, bench.address() + SHOWN as u32)?;
        bench.draws("wrapped", memory, SHOWN, colour)?;
        let device = bench.device();
        same("NAME", device.name_node(handle)?.0, Status::NOT_SUPPORTED)?;
        same("EXPORT", device.export(handle)?.0, Status::NOT_SUPPORTED)?;
        device.unlock_all(node(handle))?;
        device.free(node(handle))?;
        device.free(node(second.1))?;
        bench.draws("released", memory, SHOWN, !colour)?;
    }
    Ok(())
}

/// Runs in another process, because a mapping counts for the lifetime of its process.
fn be_other(abi: &'static Abi) -> Result<()> {
    let mut bench = Bench::new(abi)?;
    let mut mapped = Vec::new();
    other::serve(|words| {
        let number = |index: usize| -> Result<u32> {
            let word = words.get(index).context("a number")?;
            Ok(u32::from_str_radix(word, 16)?)
        };
        match words[0] {
            "draw" => Ok(bench.draw(number(1)?, number(2)?)?.0.to_string()),
            "map" => {
                let [bytes, offset] = [number(1)? as usize, number(2)? as usize];
                let region = Region::map(&bench.screen.file, bytes, offset as u64)?;
                mapped.push(region);
                Ok("0".to_string())
            }
            // Maps memory of the same size at the screen's place.
            "spare" => {
                mapped.push(Region::anonymous(number(1)? as usize)?);
                Ok("0".to_string())
            }
            // Draws to other memory.
            "own" => {
                let surface = bench.client.create_surface(64, 64)?;
                let engine = bench.client.engine();
                let mut stream = Stream::new();
                engine.fill(&mut stream, &surface, Rect::new(0, 0, 64, 64), number(1)?);
                stream.flush(engine.pipe());
                bench.client.run(engine.pipe(), &stream)?;
                let found = surface.pixel(63, 63);
                bench.client.release_surface(surface)?;
                Ok(format!("{found:x}"))
            }
            "unmap" => {
                mapped.clear();
                Ok("0".to_string())
            }
            "lock" => {
                flock(&bench.screen.file, FlockOperation::LockExclusive)?;
                Ok("0".to_string())
            }
            "wrap" => {
                let memory = bench.screen.map()?;
                wrapped(&mut bench, &memory)?;
                Ok("0".to_string())
            }
            "leave" => {
                mapped.clear();
                bench.screen.file = File::open("/dev/null")?;
                Ok("0".to_string())
            }
            verb => bail!("what is {verb}?"),
        }
    })
}

/// A client in another process, with this process's view of its target.
struct Artist {
    other: Other,
    screen: Memory,
}

impl Artist {
    fn new(abi: &'static Abi) -> Result<Self> {
        Ok(Self {
            other: Other::start(abi)?,
            screen: screen()?.map()?,
        })
    }

    /// Makes the client map the first `bytes` bytes of the screen.
    fn map(&mut self, bytes: usize) -> Result<()> {
        self.map_from(0, bytes)
    }

    /// Makes the client map `bytes` bytes from `offset` on.
    fn map_from(&mut self, offset: usize, bytes: usize) -> Result<()> {
        let asked = format!("map {bytes:x} {offset:x}");
        self.other.ask(&asked).map(|_| ())
    }

    fn draws(&mut self, what: &str, offset: usize, colour: u32) -> Result<()> {
        let memory = self.screen.clone();
        expect_drawn(what, &memory, offset, colour, || {
            self.other.ask(&format!("draw {offset:x} {colour:x}"))
        })
    }

    fn is_refused(&mut self, what: &str, offset: usize) -> Result<()> {
        let found = self.other.ask(&format!("draw {offset:x} deadbeef"))?;
        same(what, found, Status::INVALID_DATA.0.to_string())
    }
}

/// Fails unless `draw` returns 0, fills one picture from `offset` on with `colour`, and changes nothing else.
fn expect_drawn(
    what: &str,
    memory: &Memory,
    offset: usize,
    colour: u32,
    draw: impl FnOnce() -> Result<String>,
) -> Result<()> {
    let drawn = offset..offset + SHOWN;
    let all = || (0..memory.len()).step_by(4);
    let before: Vec<u32> = all().map(|at| memory.read(at)).collect();
    same(what, draw()?.as_str(), "0")?;
    for (at, word) in all().zip(before) {
        let wanted = if drawn.contains(&at) { colour } else { word };
        let found = memory.read(at);
        ensure!(
            found == wanted,
            "{what}: {found:#x} at {at:#x}, wanted {wanted:#x}"
        );
    }
    Ok(())
}

/// Whether the framebuffer's driver still holds its memory.
fn is_kept() -> Result<bool> {
    Ok(std::fs::read_to_string("/proc/iomem")?.contains("simplefb"))
}

/// Unbinds the framebuffer's driver from its device (`unbind`), or binds it (`bind`).
fn ask_driver(what: &str) -> Result<()> {
    let driver = "/sys/bus/platform/drivers/simple-framebuffer";
    std::fs::write(format!("{driver}/{what}"), "50000000.framebuffer").context(what.to_string())
}

/// The memory stays reserved while a client may draw there, and no longer.
fn driver_goes() -> Result<()> {
    let mut other = Other::start(Abi::own())?;
    let drawn = |other: &mut Other| same("a fill", other.ask("draw 0 1020304")?.as_str(), "0");
    other.ask(&format!("map {:x} 0", 2 * SHOWN))?;
    drawn(&mut other)?;
    other.ask("leave")?;
    ask_driver("unbind")?;
    let kept = is_kept();
    let drawn_still = drawn(&mut other);
    drop(other);
    let gone = eventually(
        "the framebuffer's memory goes",
        Duration::from_secs(5),
        || Ok(!is_kept()?),
    );
    ask_driver("bind")?;
    ensure!(kept?, "its memory has gone while a client may draw there");
    drawn_still?;
    gone
}

/// Mappings of the screen that do not prove write access.
fn odd_mappings(bench: &mut Bench) -> Result<()> {
    let bytes = bench.screen.bytes;
    let odd = |kind: Kind, offset: u64| {
        let bytes = bytes - offset as usize;
        Area::map(Some(&bench.screen.file), bytes, offset, kind)
    };
    let read_only = Kind {
        read_only: true,
        ..Kind::default()
    };
    let private = Kind {
        private: true,
        ..Kind::default()
    };
    let all = [
        ("for reading", odd(read_only, 0)?),
        ("private", odd(private, 0)?),
    ];
    for (what, area) in &all {
        bench.is_closed(what, Some(area.address()))?;
    }
    Ok(())
}

/// Maps physical memory. `None`: the kernel allows no such mapping (`STRICT_DEVMEM`).
fn physical_memory(bytes: usize, at: u64) -> Result<Option<Area>> {
    let file = OpenOptions::new().read(true).write(true).open("/dev/mem")?;
    match Area::map(Some(&file), bytes, at, Kind::default()) {
        Ok(area) => Ok(Some(area)),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Detaches the console from the screen, where it could draw at any time. Does not attach it again.
fn leave_console() -> Result<()> {
    for entry in std::fs::read_dir("/sys/class/vtconsole")
        .into_iter()
        .flatten()
    {
        let folder = entry?.path();
        let name = std::fs::read_to_string(folder.join("name"))?;
        if name.contains("frame buffer") {
            std::fs::write(folder.join("bind"), "0")?;
        }
    }
    Ok(())
}

/// Kernel memory, mapped by a process that has access to all of it.
fn other_physical_memory(bench: &mut Bench) -> Result<()> {
    let Some(area) = physical_memory(0x1000, 0x4000_8000)? else {
        return harness::skip("the kernel maps no physical memory for anybody");
    };
    let found = bench.map(area.address(), u32::MAX, 0x1000)?.0;
    same(
        "MAP of the kernel's memory",
        found,
        Status::OUT_OF_RESOURCES,
    )
}

fn screen_of_a_client(suite: &mut Suite) {
    suite.test("a screen that is not mapped is nobody's", || {
        let newer = Abi::named("5.0.11.p8").context("a generation")?;
        for abi in [Abi::own(), newer] {
            let mut bench = Bench::new(abi)?;
            bench.is_closed("not mapped", None)?;
            odd_mappings(&mut bench)?;
        }
        Ok(())
    });
    suite.test("who has mapped it draws there", || {
        for name in ["dove", "v2", "4.6.9", "6.2.4.p2", "6.4.11"] {
            let mut artist = Artist::new(Abi::named(name).context("a generation")?)?;
            // The client has drawn before, like a library.
            artist.is_refused(name, 0)?;
            artist.map(2 * SHOWN)?;
            for (offset, colour) in [(0, 0x1234_5678), (SHOWN, 0x8765_4321), (0x1_0000, 0xff)] {
                artist.draws(name, offset, colour)?;
            }
            artist.is_refused("in front of it", 0usize.wrapping_sub(4096))?;
            artist.is_refused("behind it", 2 * SHOWN)?;
        }
        Ok(())
    });
    suite.test("it is mapped bit by bit", || {
        let mut artist = Artist::new(Abi::own())?;
        artist.map(SHOWN)?;
        artist.draws("the first half", 0, 0x1111_2222)?;
        artist.is_refused("behind the first half", SHOWN)?;
        artist.map(2 * SHOWN)?;
        artist.draws("the second half", SHOWN, 0x3333_4444)?;
        artist.draws("the first half", 0, 0x5555_6666)
    });
    suite.test("each half is mapped by itself", || {
        let mut artist = Artist::new(Abi::own())?;
        artist.map(SHOWN)?;
        artist.draws("the first half", 0, 0x1111_2222)?;
        artist.is_refused("the second half", SHOWN)?;
        // Maps some of it a second time.
        artist.map_from(SHOWN - 4096, SHOWN + 4096)?;
        artist.draws("the second half", SHOWN, 0x3333_4444)?;
        artist.draws("the first half", 0, 0x5555_6666)?;
        artist.is_refused("the third", 2 * SHOWN)
    });
    suite.test("the second half alone is mapped", || {
        let mut artist = Artist::new(Abi::own())?;
        artist.map_from(SHOWN, SHOWN)?;
        artist.draws("the second half", SHOWN, 0x7777_8888)?;
        artist.is_refused("past it", 2 * SHOWN)
    });
    suite.test("a part is mapped, then all of it", || {
        let mut artist = Artist::new(Abi::own())?;
        artist.map_from(SHOWN, SHOWN)?;
        artist.draws("the second half", SHOWN, 0x1212_3434)?;
        artist.map(2 * SHOWN)?;
        artist.draws("the first half", 0, 0x5656_7878)?;
        artist.draws("the second half", SHOWN, 0x9a9a_bcbc)
    });
    suite.test("it takes the place of other memory", || {
        let mut artist = Artist::new(Abi::own())?;
        artist.other.ask(&format!("spare {:x}", 2 * SHOWN))?;
        same(
            "own memory",
            artist.other.ask("own 1020304")?.as_str(),
            "1020304",
        )?;
        artist.other.ask("unmap")?;
        artist.map(2 * SHOWN)?;
        artist.draws("the screen", 0, 0x0506_0708)
    });
    suite.test("MAP_USER_MEMORY, before any commands", || {
        let bench = Bench::new(Abi::own())?;
        let memory = bench.screen.map()?;
        bench.can_be_mapped(memory.address())
    });
    suite.test("WRAP_USER_MEMORY, before any commands", || {
        // Runs in another process: LOCK maps the pool permanently, which would keep a client alive.
        for name in ["5.0.11.p8", "6.2.4.p2", "6.4.11"] {
            let mut other = Other::start(Abi::named(name).context("a generation")?)?;
            same(name, other.ask("wrap")?.as_str(), "0")?;
        }
        Ok(())
    });
    suite.test("MAP_USER_MEMORY of other physical memory", || {
        let mut bench = Bench::new(Abi::own())?;
        let _memory = bench.screen.map()?;
        other_physical_memory(&mut bench)
    });
    suite.test("another process must map it, too", || {
        let (mut one, mut other) = (Artist::new(Abi::own())?, Artist::new(Abi::own())?);
        one.map(2 * SHOWN)?;
        one.draws("the one's", 0, 0x0102_0304)?;
        other.is_refused("the other's", 0)?;
        same("the one's pixels", one.screen.read(0), 0x0102_0304)?;
        other.map(2 * SHOWN)?;
        other.draws("the other's", 0, 0x0a0b_0c0d)
    });
    suite.test("a process that maps it page by page keeps none out", || {
        let mut one = Other::start(Abi::own())?;
        for pages in 1..=20 {
            one.ask(&format!("map {:x} 0", 4096 * pages))?;
            // The draw is refused, but the driver examines the mapping.
            one.ask(&format!("draw {SHOWN:x} deadbeef"))?;
        }
        let mut artist = Artist::new(Abi::own())?;
        artist.map(2 * SHOWN)?;
        artist.draws("another process", 0, 0x3344_5566)?;
        drop(artist);
        one.ask(&format!("map {SHOWN:x} 0"))?;
        same("the one still", one.ask("draw 0 4455667")?.as_str(), "0")?;
        drop(one);
        Ok(())
    });
    suite.test("once seen it is reached until the process ends", || {
        let mut artist = Artist::new(Abi::own())?;
        artist.map(2 * SHOWN)?;
        artist.other.ask("unmap")?;
        // The driver has not seen that mapping, because no commands came while it existed.
        artist.is_refused("not seen", 0)?;
        artist.map(2 * SHOWN)?;
        artist.draws("seen", 0, 0x0606_0707)?;
        artist.other.ask("unmap")?;
        artist.draws("unmapped", 0, 0x0707_0808)
    });
    suite.test("a client's lock of the screen's file ends with it", || {
        let mut artist = Artist::new(Abi::own())?;
        artist.map(2 * SHOWN)?;
        artist.other.ask("lock")?;
        artist.draws("locked", 0, 0x0808_0909)?;
        let screen = Screen::open()?;
        let lock = || flock(&screen.file, FlockOperation::NonBlockingLockExclusive);
        ensure!(lock().is_err(), "it is not locked");
        // The lock ends when the file is closed, not when the process exits.
        artist.other.ask("leave")?;
        lock().context("after the file was closed")?;
        drop(artist);
        Ok(())
    });
    suite.test("the screen's driver goes when nobody draws", driver_goes);
}

fn named_screen(suite: &mut Suite) {
    suite.test("everybody draws into what is named", || {
        let mut bench = Bench::new(Abi::own())?;
        same("not mapped", bench.draw(0, 0x0505_0606)?, Status::OK)?;
        let memory = bench.screen.map()?;
        same("its pixels", memory.read(SHOWN - 4), 0x0505_0606)?;
        bench.draws("mapped", &memory, SHOWN, 0x0606_0707)
    });
    suite.test(
        "it stays reached when a process that has mapped it ends",
        || {
            let mut bench = Bench::new(Abi::own())?;
            let mut other = Other::start(Abi::own())?;
            other.ask(&format!("map {:x} 0", 2 * SHOWN))?;
            same("mapped", other.ask("draw 0 7070808")?.as_str(), "0")?;
            drop(other);
            // This process has not mapped it, so it is not counted as a user.
            for (at, colour) in [(0, 0x0808_0909), (SHOWN as u32, 0x0909_0a0a)] {
                same("afterwards", bench.draw(at, colour)?, Status::OK)?;
            }
            let memory = bench.screen.map()?;
            same("its first pixels", memory.read(SHOWN - 4), 0x0808_0909)?;
            same("its last ones", memory.read(2 * SHOWN - 4), 0x0909_0a0a)
        },
    );
    suite.test("MAP_USER_MEMORY of what is named", || {
        let bench = Bench::new(Abi::own())?;
        let memory = bench.screen.map()?;
        bench.can_be_mapped(memory.address())?;
        let start = u64::from(bench.screen.physical);
        let Some(area) = physical_memory(bench.screen.bytes, start)? else {
            return harness::skip("the kernel maps no physical memory for anybody");
        };
        bench.can_be_mapped(area.address())
    });
    suite.test("MAP_USER_MEMORY of other physical memory", || {
        other_physical_memory(&mut Bench::new(Abi::own())?)
    });
}

fn closed_screen(suite: &mut Suite) {
    suite.test("nobody draws there, mapped or not", || {
        let newer = Abi::named("5.0.11.p8").context("a generation")?;
        for abi in [Abi::own(), newer] {
            let mut bench = Bench::new(abi)?;
            bench.is_closed("not mapped", None)?;
            let memory = bench.screen.map()?;
            bench.is_closed("mapped", Some(memory.address()))?;
        }
        Ok(())
    });
}

fn main() -> ExitCode {
    if let Some(code) = other::role(be_other) {
        return code;
    }
    harness::program(|| {
        leave_console()?;
        let mut suite = Suite::new();
        match std::env::args().nth(1).as_deref() {
            None => screen_of_a_client(&mut suite),
            Some("--named") => named_screen(&mut suite),
            Some("--closed") => closed_screen(&mut suite),
            Some(other) => bail!("unknown argument {other}"),
        }
        suite.run()
    })
}
