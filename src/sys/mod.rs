// SPDX-License-Identifier: GPL-2.0-only

//! The only room with `unsafe`. It has safe wrappers for functions that the `kernel` crate lacks.
//!
//! It owns raw kernel objects (mappings, DMA memory, device numbers, procfs entries). Each has a
//! type whose `Drop` undoes exactly what its constructor did. The safe functions are sound for any
//! safe caller. Types carry the preconditions of a call (`vma::NewArea`, `mmio::Part`,
//! `dma::Device`, `unload::InUse`), and C holds a reference of each object whose memory it uses.
//! Apart from the names in `trace`, the room is independent of GPUs. It only imports `wait`. Its
//! locks protect the registries of shared pages and dma-bufs; in C, the lists of stand-ins and
//! powers, power domains, and `gpu_govern`. The C half is `shim.c`, `shim_files.c`,
//! `shim_memory.c` and `shim_device.c` (macros and inlines only), and one file each for dma-bufs,
//! DRM, fences, components, power and framebuffers, with the operations that the kernel calls
//! (`shim_dma_buf.c` and so on). `shim_trace.c` has the trace events.
//!
//! No type can prove that a range of physical addresses is registers, or memory without another
//! user. The machine's owner declares such ranges in the device tree or by parameters. This room
//! refuses all others (`mmio::Source`, `platform::OwnDevice`, `mmio::Registers`).

pub(crate) mod barrier;
pub(crate) mod chrdev;
pub(crate) mod clock;
pub(crate) mod coredump;
pub(crate) mod decimal;
pub(crate) mod dma;
pub(crate) mod dma_buf;
pub(crate) mod drm;
pub(crate) mod file;
pub(crate) mod framebuffer;
mod mapped;
pub(crate) mod mmio;
pub(crate) mod pages;
pub(crate) mod pinned;
pub(crate) mod platform;
pub(crate) mod power;
pub(crate) mod prelude;
pub(crate) mod slot;
pub(crate) mod text_files;
pub(crate) mod trace;
pub(crate) mod tree;
pub(crate) mod unload;
pub(crate) mod user;
pub(crate) mod vma;
pub(crate) mod work;

/// Bindings of `shim.h`.
#[allow(
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    dead_code,
    improper_ctypes,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unreachable_pub,
    unsafe_op_in_unsafe_fn,
    unused_imports
)]
mod shim {
    include!(env!("GALCORE_SHIM_BINDINGS"));
}

use crate::sys::prelude::*;
use core::fmt::Write as _;
use kernel::{
    alloc::Flags,
    bindings,
    device,
    mm::Mm, //
};

/// For memory that clients request. It is charged to the caller's memory cgroup. If memory is
/// short, the allocation fails. The OOM killer would not find the culprit, because GPU memory
/// belongs to no process.
pub(crate) const GFP_CLIENT: Flags = that_may_fail(bindings::GFP_KERNEL_ACCOUNT);

/// As [`GFP_CLIENT`], but not charged: for allocations under a lock that all processes take. A
/// charge can wait for reclaim in the caller's cgroup without a bound.
pub(crate) const GFP_UNCHARGED: Flags = that_may_fail(bindings::GFP_KERNEL);

const fn that_may_fail(raw: bindings::gfp_t) -> Flags {
    let fails = 1 << bindings::___GFP_RETRY_MAYFAIL_BIT | 1 << bindings::___GFP_NOWARN_BIT;
    // SAFETY: `Flags` is one number of this type and has no invariant. If the sizes differed, this
    // would not compile. The test `galcore_sys` compares known values.
    unsafe { core::mem::transmute::<bindings::gfp_t, Flags>(raw | fails) }
}

/// The C pointer of a device.
fn raw_device(dev: &device::Device) -> *mut bindings::device {
    // `device::Device` is a transparent wrapper of `struct device`.
    core::ptr::from_ref(dev)
        .cast_mut()
        .cast::<bindings::device>()
}

/// Maps `bytes` of `file`, from byte `offset` on, into the calling process. The mapping is shared,
/// readable and, with `write`, writable. Calls the file's `mmap`: the caller must not hold a lock
/// that `mmap` takes. Returns the address. `ESRCH`: the caller is a kernel thread.
///
/// # Safety
///
/// The file is open during the call.
unsafe fn map_file(
    file: *mut bindings::file,
    bytes: usize,
    write: bool,
    offset: usize,
) -> Result<usize> {
    // A kernel thread has no memory map.
    if kernel::current!().mm().is_none() {
        return Err(ESRCH);
    }
    // PROT_READ, PROT_WRITE and MAP_SHARED have the same numbers on every architecture.
    let protection = if write { 3 } else { 1 };
    // SAFETY: By the caller. The memory manager checks the other arguments.
    let address = unsafe { bindings::vm_mmap(file, 0, bytes, protection, 1, offset) };
    // A value in the upper half is an error number or, with a 3G/1G split, a user address.
    let errno = address.wrapping_neg();
    if isize::try_from(address).is_err() && errno < 4096 {
        // CAST: below 4096.
        Err(Error::from_errno(-(errno as kernel::ffi::c_int)))
    } else {
        Ok(address)
    }
}

/// A physical, bus or resource address in 64 bits, for any machine's width.
pub(crate) fn widen(address: impl Into<u64>) -> u64 {
    address.into()
}

/// As `kernel::num::casts` of Linux 7.3 has it: no machine's `usize` has fewer than 32 bits.
#[inline(always)]
pub(crate) const fn u32_as_usize(value: u32) -> usize {
    value as usize
}

/// As `kernel::num::casts` of Linux 7.3 has it: no machine's `usize` has more than 64 bits.
#[inline(always)]
pub(crate) const fn usize_as_u64(value: usize) -> u64 {
    value as u64
}

/// The sizes of available memory and of all memory, in bytes.
pub(crate) fn memory_bytes() -> (usize, usize) {
    // SAFETY: Both calls read counters of the memory manager and have no preconditions.
    let (available, total) = unsafe { (shim::gal_available_pages(), shim::gal_total_pages()) };
    let in_bytes = |pages: usize| pages.saturating_mul(PAGE_SIZE);
    (in_bytes(available), in_bytes(total))
}

/// Whether contiguous memory of `bytes` comes from CMA, which [`memory_bytes`] does not count.
pub(crate) fn comes_from_cma(bytes: usize) -> bool {
    // SAFETY: The call compares a number with the size of CMA and has no preconditions.
    unsafe { shim::gal_comes_from_cma(bytes) }
}

/// Whether dynamic debug is on (`module galcore +p`). The log then has the reasons for refusals.
pub(crate) fn debugs() -> bool {
    // SAFETY: The call reads a flag and has no preconditions.
    unsafe { shim::gal_debugs() }
}

/// Whether jobs and allocations must check the administrator's settings. This is a static key,
/// which costs nothing while it is off.
#[inline(always)]
pub(crate) fn watches_paths() -> bool {
    // SAFETY: C has defined the key.
    unsafe { kernel::jump_label::static_branch_unlikely!(shim::gal_paths, shim::gal_key, key) }
}

/// Sets the key of [`watches_paths`]. May sleep.
pub(crate) fn watch_paths(on: bool) {
    // SAFETY: The call may be made wherever sleeping is allowed.
    unsafe { shim::gal_watch_paths(on) }
}

/// Whether the calling thread is being killed. Then work on its behalf must end soon.
pub(crate) fn is_killed() -> bool {
    // SAFETY: Only reads the calling thread.
    unsafe { shim::gal_is_killed() }
}

/// Whether a pending Unix signal of the calling thread has a handler that restarts system calls
/// (`SA_RESTART`), or none has a handler. The kernel itself only checks the first handler.
pub(crate) fn will_restart() -> bool {
    // SAFETY: Only reads the calling thread.
    unsafe { shim::gal_will_restart() }
}

/// Whether the process of `task` is exiting with all of its threads, or has exited.
pub(crate) fn is_ending(task: &Task) -> bool {
    // SAFETY: The reference guarantees a live task. The call reads its flags.
    unsafe { shim::gal_is_ending(task.as_ptr()) }
}

/// The nice value of the calling thread: -20 to 19.
pub(crate) fn nice() -> i32 {
    // SAFETY: Only reads the calling thread.
    unsafe { shim::gal_nice() }
}

/// Reschedules if needed. Not in atomic context.
pub(crate) fn yield_if_due() {
    // SAFETY: May be called wherever sleeping is allowed.
    unsafe { shim::gal_yield() }
}

/// An unpredictable random number.
pub(crate) fn random() -> u32 {
    // SAFETY: May be called from any context.
    unsafe { bindings::get_random_u32() }
}

/// Whether the calling program has 32 or 64 bits.
pub(crate) fn program_bits() -> u8 {
    // SAFETY: Only reads the calling thread.
    if cfg!(not(CONFIG_64BIT)) || unsafe { shim::gal_in_compat_call() } {
        32
    } else {
        64
    }
}

/// The highest address that the calling program can use. For a 32-bit program it is below 4 GiB,
/// even with a 64-bit kernel.
pub(crate) fn highest_user_address() -> usize {
    match program_bits() {
        32 => u32_as_usize(u32::MAX),
        _ => usize::MAX,
    }
}

/// Whether the calling process has `CAP_SYS_ADMIN`.
pub(crate) fn is_admin() -> bool {
    // SAFETY: May be called from any process context. The number is a valid capability.
    unsafe { bindings::capable(bindings::CAP_SYS_ADMIN as kernel::ffi::c_int) }
}

/// Whether the calling process may observe others (`CAP_PERFMON` or `CAP_SYS_ADMIN`).
pub(crate) fn may_profile() -> bool {
    // SAFETY: May be called from any process context. The number is a valid capability.
    unsafe { bindings::capable(bindings::CAP_PERFMON as kernel::ffi::c_int) || is_admin() }
}

/// The calling thread's real user, as a global ID.
pub(crate) fn user_id() -> u32 {
    // SAFETY: Only reads the calling thread.
    unsafe { shim::gal_user_id() }
}

/// The calling thread's effective user, as a global ID, unique across user namespaces.
pub(crate) fn effective_user_id() -> u32 {
    // SAFETY: Only reads the calling thread.
    unsafe { shim::gal_effective_user_id() }
}

/// Sleeps for about `milliseconds`. `EINTR`: a Unix signal interrupted the sleep.
pub(crate) fn sleep(milliseconds: u32) -> Result {
    // SAFETY: As all functions that may fail with `EINTR`, this is called where sleeping is
    // allowed.
    kernel::error::to_result(unsafe { shim::gal_sleep(milliseconds) })
}

/// A thread's command name, as in the kernel's log.
#[derive(Clone)]
pub(crate) struct CommandName([u8; 16]);

impl CommandName {
    /// The name of the calling thread.
    pub(crate) fn of_caller() -> Self {
        Self::of(kernel::current!())
    }

    /// The bytes, padded with zeros.
    pub(crate) fn bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// The current name of `task`.
    pub(crate) fn of(task: &Task) -> Self {
        // SAFETY: The task is referenced. A concurrent change may result in a mix of both names, as
        // in `get_task_comm()`.
        let mut name = unsafe { (&raw const (*task.as_ptr()).comm).read_volatile() };
        let end = name.iter().position(|&byte| byte == 0).unwrap_or(15);
        name[end.min(15)..].fill(0);
        Self(name)
    }
}

impl fmt::Display for CommandName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for &byte in self.0.iter().take_while(|&&byte| byte != 0) {
            // A process can set its name to any bytes.
            let plain = byte.is_ascii_graphic() || byte == b' ';
            out.write_char(if plain { byte.into() } else { '?' })?;
        }
        Ok(())
    }
}

/// The process ID of a task.
pub(crate) fn process_id(task: &Task) -> i32 {
    // SAFETY: The task is referenced. Its number does not change.
    unsafe { (*task.as_ptr()).tgid }
}

/// The leader of the process with ID `number` in the caller's namespace. `None`: there is none.
pub(crate) fn leader_of(number: i32) -> Option<ARef<Task>> {
    let of = bindings::pid_type_PIDTYPE_TGID;
    let _reader = kernel::sync::rcu::read_lock();
    // SAFETY: RCU keeps the number between both calls. They return null if no process has it.
    let leader = unsafe { bindings::get_pid_task(bindings::find_vpid(number), of) };
    let leader = NonNull::new(leader)?;
    // SAFETY: The call passes a reference to the result. `Task` is a transparent wrapper.
    Some(unsafe { ARef::from_raw(leader.cast()) })
}

/// The start time of a task's process. It distinguishes processes that had the same ID.
pub(crate) fn start_time(task: &Task) -> u64 {
    // SAFETY: The task is referenced. Its start time does not change.
    unsafe { (*task.as_ptr()).start_boottime }
}

/// The monotonic clock, in nanoseconds.
pub(crate) fn monotonic_ns() -> u64 {
    // SAFETY: Reading the monotonic clock has no preconditions.
    let now = unsafe { bindings::ktime_get() };
    u64::try_from(now).unwrap_or(0)
}

/// Whether the calling thread belongs to the process of `leader`.
pub(crate) fn is_thread_of(leader: &Task) -> bool {
    // SAFETY: The reference guarantees a live task. It is only compared with the caller's.
    unsafe { shim::gal_is_thread_of(leader.as_ptr()) }
}

/// Sends realtime signal `number` with `value` to the process of `leader`. Does nothing if that has
/// a memory map other than `mm`: it then runs another program, which may have more rights than the
/// sender. Ignores failures: the receiver's queue is full, or it has exited.
pub(crate) fn send_signal(leader: &Task, mm: &Mm, number: i32, value: u32) {
    // SAFETY: The task and the memory map are referenced. The latter is only compared.
    unsafe { shim::gal_send_signal(leader.as_ptr(), mm.as_raw(), number, value) };
}

/// Disables preemption while it lives, for work that others need. The thread must not sleep.
pub(crate) struct NoPreemption(core::marker::PhantomData<*mut ()>);

impl NoPreemption {
    /// Disables preemption.
    pub(crate) fn new() -> Self {
        // SAFETY: The drop ends it in the same thread, because the type is not `Send`.
        unsafe { shim::gal_preempt_disable() };
        Self(core::marker::PhantomData)
    }
}

impl Drop for NoPreemption {
    fn drop(&mut self) {
        // SAFETY: `new` disabled preemption in this thread, because the type is not `Send`. Only
        // this drop enables it again.
        unsafe { shim::gal_preempt_enable() }
    }
}

/// The kernel's tick counter, which never wraps.
pub(crate) fn jiffies64() -> u64 {
    // SAFETY: Reading the tick counter has no preconditions.
    unsafe { shim::gal_jiffies64() }
}

/// Ticks per second.
pub(crate) const HZ: u32 = shim::gal_ticks_GAL_HZ;

/// The kernel's tick counter.
pub(crate) fn jiffies() -> usize {
    // SAFETY: The timer interrupt writes this word. Any value that it had is correct.
    unsafe { core::ptr::addr_of!(bindings::jiffies).read_volatile() }
}

#[kunit_tests(galcore_sys)]
mod tests {
    use super::*;

    #[test]
    fn what_clients_ask_for_is_charged_and_may_fail() {
        assert!(GFP_CLIENT.contains(GFP_KERNEL_ACCOUNT));
        assert!(GFP_CLIENT.contains(__GFP_NOWARN));
        assert!(!GFP_CLIENT.contains(__GFP_ZERO));
        assert!(GFP_CLIENT != GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
        assert!(!GFP_UNCHARGED.contains(GFP_KERNEL_ACCOUNT));
        assert!(GFP_UNCHARGED.contains(GFP_KERNEL | __GFP_NOWARN));
    }
}
