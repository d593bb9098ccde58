// SPDX-License-Identifier: GPL-2.0-only
//! An open device. Each command is a function, and each function makes one ioctl.
//!
//! Functions return [`Error::Status`] if the driver answers with a status other than 0. Use [`Device::send`] to get
//! the status itself.

use std::fmt;
use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsFd;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

use crate::abi::Abi;
use crate::queue::Queue;
use crate::sys;
use crate::sys::Region;
use crate::uapi;
use crate::uapi::Command;
use crate::uapi::Interface;
use crate::uapi::Pool;
use crate::uapi::Status;
use crate::uapi::Structure;

/// Device nodes, in the order in which clients try them.
pub const NODES: [&str; 2] = ["/dev/galcore", "/dev/graphics/galcore"];

/// A generation whose requests have an index for cores of the same type.
const NUMBERED: &str = "6.4.11";

/// Errors of this library.
#[derive(Debug)]
pub enum Error {
    /// No node could be opened.
    Open(io::Error),
    /// The ioctl itself failed.
    Ioctl(Command, io::Error),
    /// The driver answered with a status other than 0.
    Status(Command, Status),
    /// A mapping could not be made.
    Map(io::Error),
    /// The caller asked for something impossible.
    Usage(&'static str),
}

impl Error {
    /// The status, if this is a status error.
    pub fn status(&self) -> Option<Status> {
        match self {
            Error::Status(_, status) => Some(*status),
            _ => None,
        }
    }

    /// The errno, if the ioctl failed.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Error::Ioctl(_, error) => error.raw_os_error(),
            _ => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Open(error) => write!(f, "cannot open {}: {error}", NODES.join(" or ")),
            Error::Ioctl(command, error) => write!(f, "{command}: ioctl: {error}"),
            Error::Status(command, status) => write!(f, "{command}: status {status}"),
            Error::Map(error) => write!(f, "mmap: {error}"),
            Error::Usage(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Error {}

/// `Result` with [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// A range of a [`Region`], with offsets from 0.
#[derive(Clone, Debug)]
pub struct Memory {
    region: Arc<Region>,
    start: usize,
    bytes: usize,
}

impl Memory {
    /// The whole of `region`.
    pub fn new(region: Region) -> Self {
        let bytes = region.len();
        Self {
            region: Arc::new(region),
            start: 0,
            bytes,
        }
    }

    /// A part of it, or `None` if the part is not inside.
    pub fn part(&self, start: usize, bytes: usize) -> Option<Self> {
        let end = start.checked_add(bytes)?;
        (end <= self.bytes).then(|| Self {
            region: self.region.clone(),
            start: self.start + start,
            bytes,
        })
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether the length is 0.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Address in this process.
    pub fn address(&self) -> u64 {
        self.region.address() + self.start as u64
    }

    /// Reads the word at a byte offset.
    ///
    /// # Panics
    ///
    /// If the word is not inside, or is not aligned.
    pub fn read(&self, offset: usize) -> u32 {
        assert!(
            offset + 4 <= self.bytes,
            "word at {offset:#x} of {:#x}",
            self.bytes
        );
        self.region.read(self.start + offset)
    }

    /// Writes the word at a byte offset.
    ///
    /// # Panics
    ///
    /// As [`Memory::read`].
    pub fn write(&self, offset: usize, value: u32) {
        assert!(
            offset + 4 <= self.bytes,
            "word at {offset:#x} of {:#x}",
            self.bytes
        );
        self.region.write(self.start + offset, value);
    }

    /// Writes `value` to every word.
    pub fn fill(&self, value: u32) {
        for offset in (0..self.bytes & !3).step_by(4) {
            self.write(offset, value);
        }
    }

    /// Offset and value of the first word that is not `value`.
    pub fn find_other_than(&self, value: u32) -> Option<(usize, u32)> {
        let found = self.region.find_other_than(self.start, self.bytes, value);
        let offset = found? - self.start;
        Some((offset, self.read(offset)))
    }
}

/// Memory from ALLOCATE_CONTIGUOUS or ALLOCATE_NON_PAGED.
#[derive(Debug)]
pub struct Buffer {
    /// Handle.
    pub physical: u32,
    /// GPU address. 0 for non-paged memory: the interface does not return its address.
    pub address: u32,
    /// Size as the driver rounded it.
    pub bytes: u64,
    /// Address in this process.
    pub logical: u64,
    /// The memory. Do not access it after the buffer is freed.
    pub memory: Memory,
}

impl Buffer {
    /// Whether the buffer contains this GPU address.
    pub fn has(&self, address: u32) -> bool {
        let offset = address.checked_sub(self.address);
        offset.is_some_and(|offset| u64::from(offset) < self.bytes)
    }
}

/// A node of video memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// Handle.
    pub handle: u64,
    /// The pool that it was allocated from.
    pub pool: Pool,
    /// Requested size.
    pub bytes: u32,
    /// Requested surface type.
    pub surface_type: u32,
}

/// Addresses of a locked node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// GPU address.
    pub address: u32,
    /// Address in this process.
    pub logical: u64,
}

/// Bytes of one kind of memory that a process uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Book {
    /// In use now.
    pub bytes: u64,
    /// Highest use so far.
    pub most: u64,
    /// Sum of all allocations.
    pub total: u64,
}

/// The answer of DATABASE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Database {
    /// Nodes.
    pub video: Book,
    /// Non-paged buffers.
    pub non_paged: Book,
    /// Contiguous buffers.
    pub contiguous: Book,
}

/// The state of the completion page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// An even number that grows by 2 with each change.
    pub sequence: u32,
    /// Number of the last completed submission; 0 means none.
    pub number: u64,
    /// Time of its completion, in nanoseconds of CLOCK_MONOTONIC.
    pub timestamp: u64,
    /// Number of the last dropped submission; 0 means none.
    pub dropped: u64,
}

/// The completion page.
#[derive(Debug)]
pub struct Completion {
    /// The mapping.
    pub region: Region,
}

impl Completion {
    /// Bytes of the head, and of each core's slot after it.
    pub const SLOT: usize = 64;

    /// The version of the page's layout, and the number of cores that it has slots for.
    pub fn head(&self) -> (u32, u32) {
        (self.region.read(0), self.region.read(4))
    }

    /// Reads the slot of the first core. Retries while the slot changes.
    pub fn read(&self) -> Completed {
        use std::sync::atomic::fence;
        use std::sync::atomic::Ordering::SeqCst;
        let word = |at| self.region.read(Self::SLOT + at);
        let long = |at| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        loop {
            let sequence = word(0);
            fence(SeqCst);
            let (number, timestamp, dropped) = (long(8), long(16), long(24));
            fence(SeqCst);
            if sequence % 2 == 0 && word(0) == sequence {
                return Completed {
                    sequence,
                    number,
                    timestamp,
                    dropped,
                };
            }
            std::thread::yield_now();
        }
    }
}

/// An open galcore device.
#[derive(Debug)]
pub struct Device {
    file: File,
    hardware_type: u32,
    core_index: u32,
    abi: &'static Abi,
}

/// Memory that the driver did not allocate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// A descriptor of a dma-buf.
    DmaBuf(i32),
    /// Address and size of memory of this process.
    Memory(u64, u32),
}

impl Device {
    /// Opens the first node that exists.
    pub fn open() -> Result<Self> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for node in NODES {
            match Self::open_node(node) {
                Ok(device) => return Ok(device),
                Err(Error::Open(error)) => last = error,
                Err(other) => return Err(other),
            }
        }
        Err(Error::Open(last))
    }

    /// Opens one node and asks the driver for the type of its core.
    pub fn open_node(node: impl AsRef<Path>) -> Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(node)
            .map_err(Error::Open)?;
        Self::of_file(file)
    }

    /// Takes a device that is already open, for example an inherited descriptor.
    pub fn of_file(file: File) -> Result<Self> {
        Self::speaking(file, Abi::own())
    }

    /// Opens a device that uses another generation of the interface. If `asks` is true, the client requests this
    /// generation from the driver.
    pub fn open_as(abi: &'static Abi, asks: bool) -> Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(NODES[0])
            .map_err(Error::Open)?;
        if asks {
            set_interface(&file, abi.name).map_err(Error::Open)?;
        }
        Self::speaking(file, abi)
    }

    /// Opens the device again. Requests of the new file go to core `number` of CHIP_INFO.
    pub fn open_core(number: usize) -> Result<Self> {
        let mut device = Self::open()?;
        let info = device.chip_info()?;
        let known = info.types.iter().take(info.count.max(0) as usize);
        let none = Error::Usage("the device has no such core");
        let kind = *known.clone().nth(number).ok_or(none)?;
        // A core with both engines is also a 3D core.
        let is_like = |other: u32| kind == other || kind & other & uapi::hardware::TYPE_3D != 0;
        let before = known.take(number).filter(|&&other| is_like(other)).count();
        if before > 0 {
            // Only later generations have an index for cores of a type, and a type for neural cores.
            let newer = Abi::named(NUMBERED).ok_or(Error::Usage("it needs a later generation"))?;
            device = Self::open_as(newer, true)?;
        }
        device.hardware_type = match before {
            0 => kind,
            // The file's generation may use other numbers for the types.
            _ => device.chip_info()?.types[number],
        };
        device.core_index = before as u32;
        Ok(device)
    }

    /// Sets the core type that requests go to from now on.
    pub fn set_hardware_type(&mut self, hardware_type: u32) {
        self.hardware_type = hardware_type;
    }

    /// Sets which core of the type requests go to, in generations whose interface has this index.
    pub fn set_core_index(&mut self, core_index: u32) {
        self.core_index = core_index;
    }

    /// Takes an open device whose file uses another generation of the interface.
    pub fn speaking(file: File, abi: &'static Abi) -> Result<Self> {
        let mut device = Self {
            file,
            hardware_type: 0,
            core_index: 0,
            abi,
        };
        if abi.has("CHIP_INFO") {
            device.hardware_type = device.chip_info()?.types[0];
        }
        Ok(device)
    }

    /// The generation of the interface.
    pub fn abi(&self) -> &'static Abi {
        self.abi
    }

    /// Sends a request as bytes of the device's generation. The answer replaces them.
    pub fn exchange_bytes(&self, bytes: &mut [u8]) -> io::Result<()> {
        if self.core_index != 0 {
            self.abi
                .put_header(bytes, "coreIndex", self.core_index.into());
        }
        loop {
            let result = match self.abi.argument {
                16 => sys::exchange_short(self.as_fd(), uapi::IOCTL_INTERFACE, bytes),
                _ => sys::exchange(self.as_fd(), uapi::IOCTL_INTERFACE, bytes),
            };
            match result {
                Ok(_) => return Ok(()),
                // A Unix signal without SA_RESTART interrupted the wait; the request has had no effect yet.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
        }
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The hardware type of requests: by default that of the first core.
    pub fn hardware_type(&self) -> u32 {
        self.hardware_type
    }

    /// Sends a request and returns its status; `interface` holds the answer.
    pub fn exchange(&self, interface: &mut Interface) -> Result<Status> {
        let command = interface.command();
        interface.set_hardware_type(self.hardware_type);
        if self.abi.is_own() {
            self.exchange_bytes(interface.bytes_mut())
                .map_err(|error| Error::Ioctl(command, error))?;
            return Ok(interface.status());
        }
        let mut bytes = self.abi.encode(interface)?;
        self.exchange_bytes(&mut bytes)
            .map_err(|error| Error::Ioctl(command, error))?;
        self.abi.decode(&bytes, interface)?;
        Ok(interface.status())
    }

    /// Sends `payload` with `command`; returns the status and the answer.
    pub fn send<T: Structure>(&self, command: Command, payload: &T) -> Result<(Status, T)> {
        let mut interface = Interface::with(command, payload);
        let status = self.exchange(&mut interface)?;
        Ok((status, interface.get()))
    }

    /// Sends `payload` with `command`. A status other than 0 is an error.
    pub fn request<T: Structure>(&self, command: Command, payload: &T) -> Result<T> {
        match self.send(command, payload)? {
            (Status::OK, answer) => Ok(answer),
            (status, _) => Err(Error::Status(command, status)),
        }
    }

    /// Sends a command of a later generation with the fields `given`, by their names there. Returns the status and
    /// the field `wanted` of the answer.
    pub fn ask(&self, command: &str, given: &[(&str, u64)], wanted: &str) -> Result<(Status, u64)> {
        let (status, [found]) = self.ask_for(command, given, [wanted])?;
        Ok((status, found))
    }

    /// Like [`Device::ask`], for several fields of the answer.
    pub fn ask_for<const N: usize>(
        &self,
        command: &str,
        given: &[(&str, u64)],
        wanted: [&str; N],
    ) -> Result<(Status, [u64; N])> {
        let abi = self.abi;
        let known = abi.commands.get(command).copied();
        let (number, member) = known.ok_or(Error::Usage("the generation has no such command"))?;
        let mut bytes = vec![0; abi.sizes[0]];
        bytes[..4].copy_from_slice(&number.to_le_bytes());
        abi.put_header(&mut bytes, "hardwareType", self.hardware_type.into());
        for (field, value) in given {
            abi.set(&mut bytes, member, field, *value);
        }
        self.exchange_bytes(&mut bytes).map_err(Error::Map)?;
        let status = Status(abi.header_of(&bytes, "status") as i32);
        Ok((status, wanted.map(|field| abi.get(&bytes, member, field))))
    }

    /// NAME_VIDEO_MEMORY: returns status and name.
    pub fn name_node(&self, handle: u64) -> Result<(Status, u64)> {
        self.ask("NAME_VIDEO_MEMORY", &[("handle", handle)], "name")
    }

    /// IMPORT_VIDEO_MEMORY: returns status and handle.
    pub fn import_node(&self, name: u64) -> Result<(Status, u64)> {
        self.ask("IMPORT_VIDEO_MEMORY", &[("name", name)], "handle")
    }

    /// WRAP_USER_MEMORY of memory of this process: returns status and handle.
    pub fn wrap_memory(&self, address: u64, bytes: u64) -> Result<(Status, u64)> {
        let kind = self.abi.values["ALLOC_FLAG_USERMEMORY"].into();
        self.ask(
            "WRAP_USER_MEMORY",
            &[
                ("desc.flag", kind),
                ("desc.logical", address),
                ("desc.physical", u64::MAX),
                ("desc.size", bytes),
            ],
            "node",
        )
    }

    /// WRAP_USER_MEMORY of a dma-buf: returns status and handle.
    pub fn wrap_dma_buf(&self, descriptor: i32) -> Result<(Status, u64)> {
        let kind = self.abi.values["ALLOC_FLAG_DMABUF"].into();
        let descriptor = u64::from(descriptor as u32);
        self.ask(
            "WRAP_USER_MEMORY",
            &[("desc.flag", kind), ("desc.handle", descriptor)],
            "node",
        )
    }

    /// EXPORT_VIDEO_MEMORY for reading and writing, or GET_VIDEO_MEMORY_FD in generations without it. Returns status
    /// and descriptor.
    pub fn export(&self, handle: u64) -> Result<(Status, u64)> {
        if self.abi.has("EXPORT_VIDEO_MEMORY") {
            return self.export_for(handle, libc::O_RDWR | libc::O_CLOEXEC);
        }
        self.node_descriptor(handle)
    }

    /// EXPORT_VIDEO_MEMORY with flags of `open`: returns status and descriptor.
    pub fn export_for(&self, handle: u64, flags: i32) -> Result<(Status, u64)> {
        let fields = [("node", handle), ("flags", u64::from(flags as u32))];
        self.ask("EXPORT_VIDEO_MEMORY", &fields, "fd")
    }

    /// GET_VIDEO_MEMORY_FD: returns status and descriptor.
    pub fn node_descriptor(&self, handle: u64) -> Result<(Status, u64)> {
        self.ask("GET_VIDEO_MEMORY_FD", &[("handle", handle)], "fd")
    }

    /// Sends one of Russell King's ioctls. Its structure follows the generation's argument block.
    pub fn extension(&self, request: u32, bytes: &mut [u8]) -> io::Result<i32> {
        match self.abi.argument {
            16 => sys::exchange_short(self.as_fd(), request, bytes),
            _ => sys::exchange(self.as_fd(), request, bytes),
        }
    }

    /// Maps memory that the driver did not allocate. `access` is a mask: 1 read, 2 write. Returns the status and the
    /// two values that UNMAP_USER_MEMORY needs.
    pub fn map_foreign(&self, what: Foreign, access: u32) -> io::Result<(Status, u32, u32)> {
        let mut words = [0u32; 24];
        let (request, bytes) = match what {
            Foreign::DmaBuf(descriptor) => {
                (words[20], words[21]) = (descriptor as u32, access);
                (uapi::IOC_GDMABUF_MAP, 88)
            }
            Foreign::Memory(address, bytes) => {
                (words[20], words[21]) = (address as u32, (address >> 32) as u32);
                (words[22], words[23]) = (bytes, access);
                (uapi::IOC_GMEMBUF_MAP, 96)
            }
        };
        let mut sent: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.extension(request, &mut sent[..bytes])?;
        let word =
            |at: usize| u32::from_le_bytes([sent[at], sent[at + 1], sent[at + 2], sent[at + 3]]);
        let status = self.abi.header["status"].0;
        Ok((Status(word(status) as i32), word(64), word(72)))
    }

    /// Sends a command without a payload.
    pub fn plain(&self, command: Command) -> Result<()> {
        match self.exchange(&mut Interface::new(command))? {
            Status::OK => Ok(()),
            status => Err(Error::Status(command, status)),
        }
    }

    /// VERSION.
    pub fn version(&self) -> Result<uapi::Version> {
        self.request(Command::VERSION, &Default::default())
    }

    /// CHIP_INFO.
    pub fn chip_info(&self) -> Result<uapi::ChipInfo> {
        self.request(Command::CHIP_INFO, &Default::default())
    }

    /// QUERY_CHIP_IDENTITY.
    pub fn identity(&self) -> Result<uapi::QueryChipIdentity> {
        self.request(Command::QUERY_CHIP_IDENTITY, &Default::default())
    }

    /// QUERY_VIDEO_MEMORY.
    pub fn video_memory(&self) -> Result<uapi::QueryVideoMemory> {
        self.request(Command::QUERY_VIDEO_MEMORY, &Default::default())
    }

    /// GET_BASE_ADDRESS.
    pub fn base_address(&self) -> Result<u32> {
        let answer: uapi::GetBaseAddress =
            self.request(Command::GET_BASE_ADDRESS, &Default::default())?;
        Ok(answer.base_address)
    }

    /// QUERY_KERNEL_SETTINGS: the number of the real-time signal.
    pub fn kernel_signal(&self) -> Result<i32> {
        let answer: uapi::QueryKernelSettings =
            self.request(Command::QUERY_KERNEL_SETTINGS, &Default::default())?;
        Ok(answer.signal)
    }

    /// Maps the whole SYSTEM pool at the offset that QUERY_VIDEO_MEMORY returns, as clients do.
    pub fn map_pool(&self) -> Result<Memory> {
        let info = self.video_memory()?;
        if info.contiguous_physical != 0 {
            // This generation passes the pool to the driver, which maps it.
            let answer = self.request(
                Command::MAP_MEMORY,
                &uapi::MapMemory {
                    physical: info.contiguous_physical,
                    bytes: info.contiguous_size,
                    ..Default::default()
                },
            )?;
            let region = Region::of_driver(answer.logical, info.contiguous_size as usize);
            return Ok(Memory::new(region.map_err(Error::Map)?));
        }
        self.map(
            info.contiguous_size as usize,
            u64::from(info.contiguous_physical),
        )
    }

    /// Maps `bytes` of the pool at a file offset.
    pub fn map(&self, bytes: usize, offset: u64) -> Result<Memory> {
        Ok(Memory::new(
            Region::map(self, bytes, offset).map_err(Error::Map)?,
        ))
    }

    /// ALLOCATE_CONTIGUOUS_MEMORY.
    pub fn allocate_contiguous(&self, bytes: u64) -> Result<Buffer> {
        let answer = self.request(
            Command::ALLOCATE_CONTIGUOUS_MEMORY,
            &uapi::AllocateContiguousMemory {
                bytes,
                ..Default::default()
            },
        )?;
        buffer(
            answer.bytes,
            answer.physical,
            answer.address,
            answer.logical,
        )
    }

    /// ALLOCATE_NON_PAGED_MEMORY.
    pub fn allocate_non_paged(&self, bytes: u64) -> Result<Buffer> {
        let answer = self.request(
            Command::ALLOCATE_NON_PAGED_MEMORY,
            &uapi::AllocateNonPagedMemory {
                bytes,
                ..Default::default()
            },
        )?;
        buffer(answer.bytes, answer.physical, 0, answer.logical)
    }

    /// ALLOCATE_VIRTUAL_COMMAND_BUFFER. Only the driver knows its GPU address.
    pub fn allocate_commands(&self, bytes: u64) -> Result<Buffer> {
        const COMMAND: &str = "ALLOCATE_VIRTUAL_COMMAND_BUFFER";
        let (status, [bytes, physical, logical]) = self.ask_for(
            COMMAND,
            &[("bytes", bytes)],
            ["bytes", "physical", "logical"],
        )?;
        match status {
            Status::OK => buffer(bytes, physical as u32, 0, logical),
            _ => Err(Error::Usage("no memory for commands")),
        }
    }

    /// FREE_VIRTUAL_COMMAND_BUFFER.
    pub fn free_commands(&self, buffer: &Buffer) -> Result<()> {
        let given = [
            ("bytes", buffer.bytes),
            ("physical", buffer.physical.into()),
            ("logical", buffer.logical),
        ];
        match self.ask_for("FREE_VIRTUAL_COMMAND_BUFFER", &given, [])?.0 {
            Status::OK => Ok(()),
            _ => Err(Error::Usage("memory for commands cannot be freed")),
        }
    }

    /// FREE_CONTIGUOUS_MEMORY.
    pub fn free_contiguous(&self, buffer: &Buffer) -> Result<()> {
        self.request(
            Command::FREE_CONTIGUOUS_MEMORY,
            &uapi::FreeContiguousMemory {
                bytes: buffer.bytes,
                physical: buffer.physical,
                logical: buffer.logical,
            },
        )?;
        Ok(())
    }

    /// FREE_NON_PAGED_MEMORY.
    pub fn free_non_paged(&self, buffer: &Buffer) -> Result<()> {
        self.request(
            Command::FREE_NON_PAGED_MEMORY,
            &uapi::FreeNonPagedMemory {
                bytes: buffer.bytes,
                physical: buffer.physical,
                logical: buffer.logical,
            },
        )?;
        Ok(())
    }

    /// ALLOCATE_LINEAR_VIDEO_MEMORY.
    pub fn allocate(
        &self,
        bytes: u32,
        alignment: u32,
        surface_type: u32,
        pool: Pool,
    ) -> Result<Node> {
        let answer = self.request(
            Command::ALLOCATE_LINEAR_VIDEO_MEMORY,
            &uapi::AllocateLinearVideoMemory {
                bytes,
                alignment,
                surface_type,
                pool: pool.0,
                node: 0,
            },
        )?;
        Ok(Node {
            handle: answer.node,
            pool: Pool(answer.pool),
            bytes,
            surface_type,
        })
    }

    /// LOCK_VIDEO_MEMORY.
    pub fn lock(&self, node: Node) -> Result<Location> {
        let answer = self.request(
            Command::LOCK_VIDEO_MEMORY,
            &uapi::LockVideoMemory {
                node: node.handle,
                ..Default::default()
            },
        )?;
        Ok(Location {
            address: answer.address,
            logical: answer.memory,
        })
    }

    /// The memory of a locked node: part of the mapped pool, or a mapping that the driver made.
    pub fn memory(&self, node: Node, location: Location, pool: &Memory) -> Result<Memory> {
        if node.pool == Pool::SYSTEM {
            let start = location
                .logical
                .checked_sub(pool.address())
                .ok_or(Error::Usage(
                    "a node of the pool lies before the mapped pool",
                ))?;
            return pool
                .part(start as usize, node.bytes as usize)
                .ok_or(Error::Usage(
                    "a node of the pool lies outside of the mapped pool",
                ));
        }
        let region =
            Region::of_driver(location.logical, node.bytes as usize).map_err(Error::Map)?;
        Ok(Memory::new(region))
    }

    /// UNLOCK_VIDEO_MEMORY. Returns true if the second half must follow in a queue.
    pub fn unlock(&self, node: Node) -> Result<bool> {
        let answer = self.request(
            Command::UNLOCK_VIDEO_MEMORY,
            &uapi::UnlockVideoMemory {
                node: node.handle,
                surface_type: node.surface_type,
                asynchroneous: 0,
            },
        )?;
        Ok(answer.asynchroneous != 0)
    }

    /// UNLOCK_VIDEO_MEMORY. If a second half is necessary, it is queued after everything committed so far.
    pub fn unlock_all(&self, node: Node) -> Result<()> {
        if self.unlock(node)? {
            self.commit_queue(Queue::new().unlock(node))
        } else {
            Ok(())
        }
    }

    /// FREE_VIDEO_MEMORY.
    pub fn free(&self, node: Node) -> Result<()> {
        self.request(
            Command::FREE_VIDEO_MEMORY,
            &uapi::FreeVideoMemory { node: node.handle },
        )?;
        Ok(())
    }

    /// USER_SIGNAL with any sub-command.
    pub fn user_signal(&self, payload: &uapi::UserSignal) -> Result<(Status, uapi::UserSignal)> {
        self.send(Command::USER_SIGNAL, payload)
    }

    fn signal_command(&self, command: u32, id: i32, wait: u32, state: bool) -> Result<()> {
        self.request(
            Command::USER_SIGNAL,
            &uapi::UserSignal {
                command,
                id,
                wait,
                state: state.into(),
                ..Default::default()
            },
        )?;
        Ok(())
    }

    /// Creates a signal. The first wait consumes an auto-reset signal.
    pub fn create_signal(&self, manual_reset: bool) -> Result<i32> {
        let answer = self.request(
            Command::USER_SIGNAL,
            &uapi::UserSignal {
                command: uapi::signal::CREATE,
                manual_reset: manual_reset.into(),
                ..Default::default()
            },
        )?;
        Ok(answer.id)
    }

    /// Drops a reference to a signal.
    pub fn destroy_signal(&self, id: i32) -> Result<()> {
        self.signal_command(uapi::signal::DESTROY, id, 0, false)
    }

    /// Sets or resets a signal.
    pub fn set_signal(&self, id: i32, state: bool) -> Result<()> {
        self.signal_command(uapi::signal::SIGNAL, id, 0, state)
    }

    /// Waits for a signal. `milliseconds` may be [`uapi::INFINITE`].
    pub fn wait_signal(&self, id: i32, milliseconds: u32) -> Result<()> {
        self.signal_command(uapi::signal::WAIT, id, milliseconds, false)
    }

    /// Takes another reference to a signal.
    pub fn map_signal(&self, id: i32) -> Result<()> {
        self.signal_command(uapi::signal::MAP, id, 0, false)
    }

    /// Drops a reference to a signal.
    pub fn unmap_signal(&self, id: i32) -> Result<()> {
        self.signal_command(uapi::signal::UNMAP, id, 0, false)
    }

    /// ATTACH: returns a context and the number of states that it covers.
    pub fn attach(&self) -> Result<uapi::Attach> {
        self.request(Command::ATTACH, &Default::default())
    }

    /// DETACH.
    pub fn detach(&self, context: u32) -> Result<()> {
        self.request(Command::DETACH, &uapi::Detach { context })?;
        Ok(())
    }

    /// COMMIT of a command buffer. The driver runs `queue` after it. Returns the status.
    pub fn send_commit(
        &self,
        record: &uapi::CommandBufferRecord,
        context: u32,
        queue: &mut Queue,
    ) -> Result<Status> {
        self.send_commit_with_delta(record, context, 0, queue)
    }

    /// COMMIT with the address of a state delta. Returns the status.
    pub fn send_commit_with_delta(
        &self,
        record: &uapi::CommandBufferRecord,
        context: u32,
        delta: u64,
        queue: &mut Queue,
    ) -> Result<Status> {
        use uapi::Wire;
        if !self.abi.is_own() {
            let mut commit = self.abi.commit(record, context, queue)?;
            if delta != 0 {
                let field = self.abi.delta_field();
                self.abi.set(&mut commit.bytes, "Commit", field, delta);
            }
            if let Some((at, _)) = self.abi.header.get("hardwareType") {
                self.hardware_type.put(&mut commit.bytes[*at..]);
            }
            const CORE: &str = "subCommit.coreId";
            if self.abi.field("Commit", CORE).is_some() {
                let core = self.core_index.into();
                self.abi.set(&mut commit.bytes, "Commit", CORE, core);
            }
            self.exchange_bytes(&mut commit.bytes)
                .map_err(|error| Error::Ioctl(Command::COMMIT, error))?;
            let status = Status(self.abi.header_of(&commit.bytes, "status") as i32);
            // If COMMIT of this generation takes no queue, send it separately.
            if status == Status::OK && !self.abi.attaches() && !queue.is_empty() {
                return self.send_queue(queue);
            }
            return Ok(status);
        }
        let mut bytes = [0; uapi::CommandBufferRecord::SIZE];
        record.put(&mut bytes);
        let commit = uapi::Commit {
            context: context.into(),
            command_buffer: bytes.as_ptr() as usize as u64,
            delta,
            queue: queue.head(),
        };
        Ok(self.send(Command::COMMIT, &commit)?.0)
    }

    /// COMMIT with the caller's `gcoCONTEXT` at `context`, in a generation without ATTACH. Returns the status.
    pub fn send_commit_in(
        &self,
        record: &uapi::CommandBufferRecord,
        context: u64,
    ) -> Result<Status> {
        let mut commit = self.abi.commit(record, 0, &Queue::new())?;
        self.abi
            .set(&mut commit.bytes, "Commit", "contextBuffer", context);
        self.exchange_bytes(&mut commit.bytes)
            .map_err(|error| Error::Ioctl(Command::COMMIT, error))?;
        Ok(Status(self.abi.header_of(&commit.bytes, "status") as i32))
    }

    /// COMMIT. A status other than 0 is an error.
    pub fn commit(
        &self,
        record: &uapi::CommandBufferRecord,
        context: u32,
        queue: &mut Queue,
    ) -> Result<()> {
        match self.send_commit(record, context, queue)? {
            Status::OK => Ok(()),
            status => Err(Error::Status(Command::COMMIT, status)),
        }
    }

    /// EVENT_COMMIT. Returns the status and the handle in the header. If the completion page is mapped, the driver
    /// writes the submission's number there; otherwise the handle keeps the value `before`.
    pub fn send_numbered(&self, queue: &mut Queue, before: u64) -> Result<(Status, u64)> {
        let event = uapi::Event {
            queue: queue.head(),
        };
        let mut interface = Interface::with(Command::EVENT_COMMIT, &event);
        interface.set_handle(before);
        let status = self.exchange(&mut interface)?;
        Ok((status, interface.handle()))
    }

    /// Maps the completion page.
    pub fn map_completion(&self) -> Result<Completion> {
        let region = Region::map_read_only(self, 4096, uapi::COMPLETION_OFFSET);
        Ok(Completion {
            region: region.map_err(Error::Map)?,
        })
    }

    /// MAP_USER_MEMORY.
    pub fn map_user(&self, memory: u64, bytes: u64) -> Result<uapi::MapUserMemory> {
        self.request(
            Command::MAP_USER_MEMORY,
            &uapi::MapUserMemory {
                memory,
                physical: u32::MAX,
                size: bytes,
                ..Default::default()
            },
        )
    }

    /// UNMAP_USER_MEMORY.
    pub fn unmap_user(&self, mapping: &uapi::MapUserMemory) -> Result<()> {
        self.request(
            Command::UNMAP_USER_MEMORY,
            &uapi::UnmapUserMemory {
                memory: mapping.memory,
                size: mapping.size,
                info: mapping.info,
                address: mapping.address,
            },
        )?;
        Ok(())
    }

    /// CACHE: does one of [`uapi::cache`] on `bytes` at `logical`, for a node or, if `node` is 0, for user memory.
    pub fn cache(&self, operation: u32, node: u64, logical: u64, bytes: u64) -> Result<()> {
        self.request(
            Command::CACHE,
            &uapi::Cache {
                operation,
                logical,
                bytes,
                node,
                ..Default::default()
            },
        )?;
        Ok(())
    }

    /// MAP_MEMORY of a buffer: returns its address.
    pub fn map_memory(&self, physical: u32) -> Result<u64> {
        let answer = self.request(
            Command::MAP_MEMORY,
            &uapi::MapMemory {
                physical,
                ..Default::default()
            },
        )?;
        Ok(answer.logical)
    }

    /// UNMAP_MEMORY of a buffer.
    pub fn unmap_memory(&self, physical: u32) -> Result<()> {
        self.request(
            Command::UNMAP_MEMORY,
            &uapi::UnmapMemory {
                physical,
                ..Default::default()
            },
        )?;
        Ok(())
    }

    /// LOCK_VIDEO_MEMORY with a cached view.
    pub fn lock_cacheable(&self, node: Node) -> Result<Location> {
        let answer = self.request(
            Command::LOCK_VIDEO_MEMORY,
            &uapi::LockVideoMemory {
                node: node.handle,
                cacheable: 1,
                ..Default::default()
            },
        )?;
        Ok(Location {
            address: answer.address,
            logical: answer.memory,
        })
    }

    /// DATABASE of a process.
    pub fn database(&self, process: u32) -> Result<Database> {
        use uapi::Wire;
        let mut interface = Interface::new(Command::DATABASE);
        // The request names a process.
        1u32.put(&mut interface.bytes_mut()[uapi::UNION_OFFSET..]);
        process.put(&mut interface.bytes_mut()[uapi::UNION_OFFSET + 4..]);
        match self.exchange(&mut interface)? {
            Status::OK => {}
            status => return Err(Error::Status(Command::DATABASE, status)),
        }
        // Three entries of 32 bytes follow the two words of the request.
        let book = |index: usize| {
            let at = uapi::UNION_OFFSET + 8 + 32 * index;
            let long = |field: usize| u64::take(&interface.bytes()[at + 8 * field..]);
            Book {
                bytes: long(0),
                most: long(1),
                total: long(2),
            }
        };
        Ok(Database {
            video: book(0),
            non_paged: book(1),
            contiguous: book(2),
        })
    }

    /// TIMESTAMP: returns the microseconds between start and stop of a timer.
    pub fn timer(&self, timer: u32) -> Result<i32> {
        let answer: uapi::TimeStamp = self.request(
            Command::TIMESTAMP,
            &uapi::TimeStamp {
                timer,
                request: uapi::timestamp::QUERY,
                ..Default::default()
            },
        )?;
        Ok(answer.time_delta)
    }

    /// EVENT_COMMIT. Returns the status.
    pub fn send_queue(&self, queue: &mut Queue) -> Result<Status> {
        if !self.abi.is_own() {
            let wire = self.abi.queue(queue)?;
            let event = uapi::Event { queue: wire.head() };
            return Ok(self.send(Command::EVENT_COMMIT, &event)?.0);
        }
        let event = uapi::Event {
            queue: queue.head(),
        };
        Ok(self.send(Command::EVENT_COMMIT, &event)?.0)
    }

    /// EVENT_COMMIT. A status other than 0 is an error.
    pub fn commit_queue(&self, queue: &mut Queue) -> Result<()> {
        match self.send_queue(queue)? {
            Status::OK => Ok(()),
            status => Err(Error::Status(Command::EVENT_COMMIT, status)),
        }
    }

    /// Resets of cores, as they affect this process: how many it caused, how many others caused, and how many jobs it
    /// lost.
    pub fn resets(&self) -> io::Result<(u32, u32, u32)> {
        let mut bytes = [0xff; 16];
        sys::exchange_plain(self.as_fd(), uapi::IOCTL_RESETS, &mut bytes)?;
        let word = |at: usize| {
            let word = bytes[at..at + 4].try_into();
            u32::from_le_bytes(word.unwrap_or_default())
        };
        match word(12) {
            0 => Ok((word(0), word(4), word(8))),
            _ => Err(io::Error::other("the reserved word is not 0")),
        }
    }

    /// STALL: returns when the GPU has completed everything that was committed.
    pub fn stall(&self) -> Result<()> {
        self.plain(Command::STALL)
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Selects the generation of the interface that a file uses.
pub fn set_interface(file: &File, name: &str) -> io::Result<()> {
    let mut bytes = [0; 16];
    let room = bytes.len() - 1;
    let length = name.len().min(room);
    bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
    sys::exchange_plain(file.as_fd(), uapi::IOCTL_SET_INTERFACE, &mut bytes)?;
    Ok(())
}

fn buffer(bytes: u64, physical: u32, address: u32, logical: u64) -> Result<Buffer> {
    let region = Region::of_driver(logical, bytes as usize).map_err(Error::Map)?;
    Ok(Buffer {
        physical,
        address,
        bytes,
        logical,
        memory: Memory::new(region),
    })
}
