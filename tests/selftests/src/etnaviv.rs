// SPDX-License-Identifier: GPL-2.0-only
//! Access to etnaviv, the kernel's own driver for these GPUs, through the ioctls of its clients
//! (`include/uapi/drm/drm.h` and `include/uapi/drm/etnaviv_drm.h` of the kernel).

use std::fs;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use galcore_client::device::Location;
use galcore_client::device::Memory;
use galcore_client::draw::Engine;
use galcore_client::stream::Pipe;
use galcore_client::sys;
use galcore_client::sys::Region;
use galcore_client::uapi::feature;
use galcore_client::Stream;
use galcore_client::Surface;
use gpu_control::Board;
use gpu_control::ViolationKind;
use rustix::time::clock_gettime;
use rustix::time::ClockId;

use crate::control::Control;
use crate::harness;
use crate::system::Module;
use crate::video;

/// The directory of its modules, on boots for which the runner installs them.
pub const FOLDER: &str = "/galcore/etnaviv";
/// The sysfs directory of the driver of its cores.
const CORES: &str = "/sys/bus/platform/drivers/etnaviv-gpu";
/// The DRM nodes in sysfs.
const NODES: &str = "/sys/class/drm";
/// The devices whose nodes have etnaviv's interface: etnaviv's own, and galcore's.
pub const ITS_OWN: &str = "etnaviv";
/// galcore's device, see [`ITS_OWN`].
pub const OF_GALCORE: &str = "galcore-etnaviv";

/// How long etnaviv may take to create its node.
const PROBE_LIMIT: Duration = Duration::from_secs(10);
/// The longest wait for the GPU, in seconds.
const WAIT_LIMIT: u64 = 20;

/// The first ioctl number of driver-specific ioctls.
pub const DRIVER: u32 = 0x40;
const GET_PARAM: u32 = DRIVER;
const GEM_NEW: u32 = DRIVER + 2;
/// Wraps memory of the process.
pub const GEM_USERPTR: u32 = DRIVER + 8;
const GEM_INFO: u32 = DRIVER + 3;
const GEM_CPU_PREP: u32 = DRIVER + 4;
const GEM_CPU_FINI: u32 = DRIVER + 5;
const GEM_SUBMIT: u32 = DRIVER + 6;
const WAIT_FENCE: u32 = DRIVER + 7;
/// Ioctls that all DRM drivers have.
const GEM_CLOSE: u32 = 0x09;
const PRIME_HANDLE_TO_FD: u32 = 0x2d;
const PRIME_FD_TO_HANDLE: u32 = 0x2e;

/// Direction of an ioctl: the structure is an argument.
pub const IN: u32 = 1;
/// Direction of an ioctl: the structure also returns the answer.
pub const IN_OUT: u32 = 3;

/// The largest number of cores that the tests probe.
const MAX_CORES: u32 = 4;
/// Parameters of GET_PARAM.
const PARAM_MODEL: u32 = 0x01;
const PARAM_FEATURES: u32 = 0x03;
const PARAM_PIXEL_PIPES: u32 = 0x15;
/// Flag of GEM_NEW: the processor's mapping is write-combined.
const WRITE_COMBINED: u32 = 0x2_0000;
const PREP_READ_WRITE: u32 = 3;
const SUBMIT_READ_WRITE: u32 = 3;
/// Flags of PRIME_HANDLE_TO_FD: DRM_CLOEXEC | DRM_RDWR.
const PRIME_FLAGS: u32 = 0o2000000 | 2;

/// An ioctl with its structure, as 32-bit words.
#[derive(Debug)]
pub struct Request<const WORDS: usize> {
    number: u32,
    /// The structure.
    pub words: [u32; WORDS],
}

impl<const WORDS: usize> Request<WORDS> {
    /// The DRM ioctl `number` with its structure.
    pub const fn new(direction: u32, number: u32, words: [u32; WORDS]) -> Self {
        let bytes = WORDS as u32 * 4;
        Self {
            number: direction << 30 | bytes << 16 | (b'd' as u32) << 8 | number,
            words,
        }
    }

    /// Sends the ioctl; `words` then contains the answer.
    pub fn send(&mut self, device: &File) -> io::Result<()> {
        let mut bytes = [[0; 4]; WORDS];
        for (to, word) in bytes.iter_mut().zip(self.words) {
            *to = word.to_ne_bytes();
        }
        sys::exchange_plain(device.as_fd(), self.number, bytes.as_flattened_mut())?;
        for (word, from) in self.words.iter_mut().zip(bytes) {
            *word = u32::from_ne_bytes(from);
        }
        Ok(())
    }
}

/// A 64-bit field.
pub const fn long(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

/// A 64-bit field that points to `items`.
fn pointer<T>(items: &[T]) -> [u32; 2] {
    long(items.as_ptr() as usize as u64)
}

/// The absolute time [`WAIT_LIMIT`] from now.
fn deadline() -> [u32; 4] {
    let seconds = clock_gettime(ClockId::Monotonic).tv_sec as u64 + WAIT_LIMIT;
    let [low, high] = long(seconds);
    [low, high, 0, 0]
}

/// Violations that etnaviv causes on a GC600: it reads registers that old cores do not have, and queues events without
/// a delay between them.
const BREACHES: [ViolationKind; 2] = [ViolationKind::UnknownRegister, ViolationKind::EventMerge];

/// Makes the software GPU expect these violations, because tests do not check etnaviv's faults.
pub fn expect_breaches() -> Result<()> {
    let control = Control::open()?;
    if control.board() == Some(Board::Dove) {
        for kind in BREACHES {
            let any = kind as u32 | gpu_control::EXPECT_ANY_NUMBER;
            control.write(gpu_control::EXPECT_VIOLATION, any);
        }
    }
    Ok(())
}

/// Whether this boot has etnaviv's modules.
pub fn is_there() -> bool {
    Path::new(FOLDER).is_dir()
}

/// Loads the modules in `folder` that are not loaded, in the order of their names. Their devices are bound when this
/// returns. Without the folder, etnaviv is built into the kernel; this then binds its devices again.
pub fn load(folder: &Path) -> Result<()> {
    if !folder.is_dir() {
        return bind_again();
    }
    let mut modules: Vec<PathBuf> = fs::read_dir(folder)
        .with_context(|| folder.display().to_string())?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    modules.sort();
    load_all(&modules)
}

/// Loads the modules in `folder` except etnaviv itself, for another driver with its interface. Etnaviv must not have
/// been loaded, because it oopses when it is unloaded.
pub fn load_for_another(folder: &Path) -> Result<()> {
    anyhow::ensure!(
        !Path::new("/sys/module/etnaviv").exists(),
        "etnaviv is loaded"
    );
    let mut modules: Vec<PathBuf> = fs::read_dir(folder)
        .with_context(|| folder.display().to_string())?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    modules.retain(|module| !module.to_string_lossy().ends_with("-etnaviv.ko"));
    modules.sort();
    load_all(&modules)
}

/// Loads galcore with a node of etnaviv's interface, and first the modules that it needs. Waits for the node.
pub fn load_galcore(parameters: &[&str]) -> Result<()> {
    load_for_another(Path::new(FOLDER))?;
    Module::from_words(&[])?
        .with(&["drm=etnaviv"])
        .with(parameters)
        .load_or_fail()?;
    wait_for_node_of(OF_GALCORE)
}

fn load_all(modules: &[PathBuf]) -> Result<()> {
    for module in modules {
        let path = module.to_string_lossy().into_owned();
        let (_, loaded) = Module::from_words(&[path])?.load();
        match loaded {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => {
                return Err(error).with_context(|| format!("insmod {}", module.display()))
            }
        }
    }
    Ok(())
}

/// Makes a built-in etnaviv probe its cores again: they did not answer yet when the kernel started.
fn bind_again() -> Result<()> {
    for entry in fs::read_dir(CORES).with_context(|| format!("no etnaviv: {CORES}"))? {
        let entry = entry?;
        if entry.path().join("of_node").exists() {
            for file in ["unbind", "bind"] {
                let path = Path::new(CORES).join(file);
                let name = entry.file_name();
                fs::write(&path, name.as_encoded_bytes())
                    .with_context(|| format!("{name:?} > {}", path.display()))?;
            }
        }
    }
    Ok(())
}

/// A node with etnaviv's interface, if there is one: etnaviv's own, otherwise galcore's.
pub fn node() -> Option<PathBuf> {
    node_of(ITS_OWN).or_else(|| node_of(OF_GALCORE))
}

/// The node of a device, if it exists.
pub fn node_of(device: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(NODES).ok()?;
    let mut names = entries.filter_map(|entry| Some(entry.ok()?.file_name()));
    let name = names.find(|name| {
        let found = fs::read_link(Path::new(NODES).join(name).join("device"));
        name.to_string_lossy().starts_with("renderD")
            && found.is_ok_and(|found| found.ends_with(device))
    })?;
    let node = Path::new("/dev/dri").join(name);
    node.exists().then_some(node)
}

/// Waits for a node with etnaviv's interface. Etnaviv creates its own node once all cores that it waits for exist.
pub fn wait_for_node() -> Result<()> {
    harness::eventually("etnaviv has a node", PROBE_LIMIT, || Ok(node().is_some()))
}

/// Waits for the node of a device.
pub fn wait_for_node_of(device: &str) -> Result<()> {
    harness::eventually("the node is there", PROBE_LIMIT, || {
        Ok(node_of(device).is_some())
    })
}

/// Disables runtime suspend of etnaviv's cores. On suspend, etnaviv gives the front end 100 ms to finish and then
/// restarts it even if it has not; the software GPU of a busy host may need longer.
pub fn stay_awake() -> Result<()> {
    for entry in fs::read_dir(CORES).context(CORES)? {
        let entry = entry?;
        let control = entry.path().join("power/control");
        if entry.file_type()?.is_symlink() && control.exists() {
            fs::write(&control, "on").with_context(|| control.display().to_string())?;
        }
    }
    Ok(())
}

/// An open file of a node with etnaviv's interface.
#[derive(Debug)]
pub struct Etnaviv {
    file: File,
}

impl Etnaviv {
    /// Opens a node with etnaviv's interface.
    pub fn open() -> Result<Self> {
        Self::open_node(&node().context("no node of etnaviv's interface")?)
    }

    /// Opens a given node.
    pub fn open_node(node: &Path) -> Result<Self> {
        let mut options = fs::OpenOptions::new();
        let file = options.read(true).write(true).open(node);
        let file = file.with_context(|| node.display().to_string())?;
        Ok(Self { file })
    }

    /// Uses a node that another program opened.
    pub fn of_file(file: File) -> Self {
        Self { file }
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The number and the model of each core.
    pub fn cores(&self) -> Result<Vec<(u32, u32)>> {
        let mut cores = Vec::new();
        for number in 0..MAX_CORES {
            match self.parameter(number, PARAM_MODEL) {
                Ok(model) => cores.push((number, model)),
                // No core has this number, or etnaviv does not support it.
                Err(error) if error.raw_os_error() == Some(libc::ENXIO) => {}
                Err(error) => return Err(error).context("GET_PARAM"),
            }
        }
        Ok(cores)
    }

    fn parameter(&self, core: u32, name: u32) -> io::Result<u32> {
        let mut ask = Request::new(IN_OUT, GET_PARAM, [core, name, 0, 0]);
        ask.send(&self.file)?;
        Ok(ask.words[2])
    }

    /// The engine with which core `core` draws.
    pub fn engine(&self, core: u32) -> Result<Engine> {
        let features = self.parameter(core, PARAM_FEATURES)?;
        if features & feature::PIPE_2D != 0 {
            return Ok(Engine::TwoD);
        }
        let pipes = self.parameter(core, PARAM_PIXEL_PIPES)?;
        Ok(Engine::Resolve {
            pipes: pipes.max(1),
        })
    }

    /// Creates a buffer and maps it into this process.
    pub fn create(&self, bytes: u32) -> Result<Buffer<'_>> {
        let mut new = Request::new(IN_OUT, GEM_NEW, [bytes, 0, WRITE_COMBINED, 0]);
        new.send(&self.file).context("GEM_NEW")?;
        let handle = new.words[3];
        let mut info = Request::new(IN_OUT, GEM_INFO, [handle, 0, 0, 0]);
        info.send(&self.file).context("GEM_INFO")?;
        let offset = u64::from(info.words[3]) << 32 | u64::from(info.words[2]);
        let memory = Memory::new(Region::map(&self.file, bytes as usize, offset)?);
        Ok(Buffer {
            etnaviv: self,
            handle,
            memory,
        })
    }

    /// Creates a buffer from whole pages of this process's memory; `access`: 1 for reading, 2 for writing.
    pub fn wrap(&self, memory: &Memory, access: u32) -> io::Result<Buffer<'_>> {
        let [low, high] = long(memory.address());
        let bytes = memory.len() as u32;
        let mut wrap = Request::new(IN_OUT, GEM_USERPTR, [low, high, bytes, 0, access, 0]);
        wrap.send(&self.file)?;
        Ok(Buffer {
            etnaviv: self,
            handle: wrap.words[5],
            memory: memory.clone(),
        })
    }

    /// Imports a dma-buf; `memory` is the exporter's mapping of it.
    pub fn import(&self, descriptor: &OwnedFd, memory: &Memory) -> Result<Buffer<'_>> {
        let number = descriptor.as_raw_fd() as u32;
        let mut import = Request::new(IN_OUT, PRIME_FD_TO_HANDLE, [0, 0, number]);
        import.send(&self.file).context("PRIME_FD_TO_HANDLE")?;
        Ok(Buffer {
            etnaviv: self,
            handle: import.words[0],
            memory: memory.clone(),
        })
    }

    /// Submits a stream for core `core`, in which buffer `n` of `buffers` has the addresses of [`Buffer::at`] `n`.
    /// Returns the number of the fence.
    pub fn submit(
        &self,
        core: u32,
        pipe: Pipe,
        stream: &Stream,
        buffers: &[&Buffer<'_>],
    ) -> Result<u32> {
        let relocations = relocations(stream.words(), buffers.len());
        let bos: Vec<[u32; 4]> = buffers
            .iter()
            .map(|buffer| [SUBMIT_READ_WRITE, buffer.handle, 0, 0])
            .collect();
        let mut words = [0; 18];
        words[1] = core;
        words[2] = pipe.number() as u32;
        words[3] = bos.len() as u32;
        words[4] = relocations.len() as u32;
        words[5] = stream.bytes() as u32;
        words[6..8].copy_from_slice(&pointer(&bos));
        words[8..10].copy_from_slice(&pointer(&relocations));
        words[10..12].copy_from_slice(&pointer(stream.words()));
        let mut submit = Request::new(IN_OUT, GEM_SUBMIT, words);
        submit.send(&self.file).context("GEM_SUBMIT")?;
        Ok(submit.words[0])
    }

    /// Waits for a fence of core `core`.
    pub fn wait(&self, core: u32, fence: u32) -> Result<()> {
        let [a, b, c, d] = deadline();
        let mut wait = Request::new(IN, WAIT_FENCE, [core, fence, 0, 0, a, b, c, d]);
        wait.send(&self.file).context("WAIT_FENCE")
    }

    /// Submits a stream and waits until it has finished.
    pub fn run(
        &self,
        core: u32,
        pipe: Pipe,
        stream: &Stream,
        buffers: &[&Buffer<'_>],
    ) -> Result<()> {
        let fence = self.submit(core, pipe, stream, buffers)?;
        self.wait(core, fence)
    }
}

/// A buffer, with the handle that a file of the driver has for it.
#[derive(Debug)]
pub struct Buffer<'a> {
    etnaviv: &'a Etnaviv,
    handle: u32,
    /// Its bytes.
    pub memory: Memory,
}

impl Buffer<'_> {
    /// Its handle.
    pub fn handle(&self) -> u32 {
        self.handle
    }

    /// Exports the buffer as a dma-buf.
    pub fn export(&self) -> Result<OwnedFd> {
        let mut export = Request::new(IN_OUT, PRIME_HANDLE_TO_FD, [self.handle, PRIME_FLAGS, 0]);
        export
            .send(&self.etnaviv.file)
            .context("PRIME_HANDLE_TO_FD")?;
        Ok(sys::take_descriptor(export.words[2].into())?)
    }

    /// A surface for a stream that is submitted with this buffer at index `number`.
    pub fn at(&self, number: u32, width: u32, height: u32) -> Surface {
        let stride = width * 4;
        assert!((stride * height) as usize <= self.memory.len());
        Surface {
            node: video::node(0),
            location: Location {
                address: first_address(number),
                logical: self.memory.address(),
            },
            memory: self.memory.clone(),
            width,
            height,
            stride,
        }
    }

    /// Runs `work` between CPU_PREP and CPU_FINI: the GPU has finished with the buffer, and the processor sees the
    /// result.
    pub fn with_processor<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let [a, b, c, d] = deadline();
        let words = [self.handle, PREP_READ_WRITE, a, b, c, d];
        let device = &self.etnaviv.file;
        let mut prepare = Request::new(IN, GEM_CPU_PREP, words);
        prepare.send(device).context("GEM_CPU_PREP")?;
        let done = work();
        let mut finish = Request::new(IN, GEM_CPU_FINI, [self.handle, 0]);
        finish.send(device).context("GEM_CPU_FINI")?;
        done
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        // A drop cannot report an error.
        let _ = Request::new(IN, GEM_CLOSE, [self.handle, 0]).send(&self.etnaviv.file);
    }
}

/// The address in a stream that represents buffer `number` until the driver relocates it.
const fn first_address(number: u32) -> u32 {
    (number + 1) << 28
}

/// Whether a state takes an address. Of the states that tests load, these do: DE_SRC_ADDRESS, DE_DEST_ADDRESS,
/// RS_SOURCE_ADDR, RS_DEST_ADDR, and RS_PIPE_SOURCE_ADDR and RS_PIPE_DEST_ADDR of each pixel pipe.
fn takes_address(state: u32) -> bool {
    matches!(state, 0x1200 | 0x1228 | 0x1608 | 0x1610 | 0x16c0..0x16e0 | 0x16e0..0x1700)
}

/// A relocation for each address in a stream: its position, its buffer, and the offset to add.
fn relocations(words: &[u32], buffers: usize) -> Vec<[u32; 6]> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(&header) = words.get(at) {
        let count = match header >> 27 {
            1 => (header >> 16 & 0x3ff) as usize,
            // The words that follow are corners of rectangles.
            4 => {
                at += 2 + (header >> 8 & 0xff) as usize * 2;
                continue;
            }
            _ => {
                at += 2;
                continue;
            }
        };
        for number in 0..count {
            let state = ((header & 0xffff) + number as u32) * 4;
            let Some(&word) = words.get(at + 1 + number) else {
                break;
            };
            if takes_address(state) {
                let buffer = (word >> 28).wrapping_sub(1);
                assert!((buffer as usize) < buffers, "{word:#x} is in no buffer");
                let offset = word & 0x0fff_ffff;
                found.push([(at + 1 + number) as u32 * 4, buffer, offset, 0, 0, 0]);
            }
        }
        at += (1 + count).next_multiple_of(2);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use galcore_client::Rect;

    #[test]
    fn a_request_has_its_size_in_its_number() {
        assert_eq!(Request::new(IN_OUT, DRIVER, [0; 4]).number, 0xc010_6440);
    }

    #[test]
    fn addresses_become_relocations() {
        let surface = |number| Surface {
            node: video::node(0),
            location: Location {
                address: first_address(number),
                logical: 0,
            },
            memory: Memory::new(Region::anonymous(4096).unwrap()),
            width: 32,
            height: 32,
            stride: 128,
        };
        let (from, to) = (surface(0), surface(1));
        let mut stream = Stream::new();
        let rect = Rect::new(16, 8, 16, 8);
        Engine::TwoD.copy_all(&mut stream, &from, (0, 0), &to, &[rect], rect);
        let two: Vec<_> = relocations(stream.words(), 2)
            .iter()
            .map(|[at, buffer, offset, ..]| (stream.words()[*at as usize / 4], *buffer, *offset))
            .collect();
        assert_eq!(two, [(2 << 28, 1, 0), (1 << 28, 0, 0)]);
        let mut stream = Stream::new();
        let pipes = Engine::Resolve { pipes: 2 };
        pipes.copy_all(&mut stream, &from, (0, 0), &to, &[rect], rect);
        let three: Vec<_> = relocations(stream.words(), 2)
            .iter()
            .map(|[_, buffer, offset, ..]| (*buffer, *offset))
            .collect();
        let dest = 8 * 128 + 16 * 4;
        assert_eq!(three, [(0, 0), (0, 0), (1, dest), (1, dest)]);
    }
}
