// SPDX-License-Identifier: GPL-2.0-only

//! The only room with `unsafe`: safe wrappers for what the `kernel` crate lacks.
//!
//! It owns raw kernel objects (mappings, DMA memory, device numbers, procfs entries). Each has a
//! type whose `Drop` undoes exactly what its constructor did. The safe functions are sound whatever
//! safe code does: types carry the preconditions of a call (`vma::NewArea`, `physical::Part`,
//! `dma::Device`, `unload::InUse`), and C holds a reference of each object whose memory it uses.
//! The room knows nothing of GPUs but the names in traces (`trace`), and imports only `wait`. Its
//! own locks are those of the registries of shared pages and dma-bufs, and in C those of the lists
//! of stand-ins and of powers, of power domains, and of `gpu_govern`. The C half is `shim.c`,
//! macros and inlines only, and for dma-bufs, DRM, fences, components, power and framebuffers
//! `shim_dma_buf.c`, `shim_drm.c`, `shim_fence.c`, `shim_component.c`, `shim_power.c` and
//! `shim_framebuffer.c`, with the operations that the kernel calls; `shim_trace.c` has the trace
//! events.
//!
//! No type can prove that a range of physical addresses is registers, or memory without another
//! user. The machine's owner declares it in the device tree or by parameters, and this room refuses
//! all other ranges (`physical::Source`, `platform::OwnDevice`, `mmio::Registers`).

pub(crate) mod attribute;
pub(crate) mod barrier;
pub(crate) mod chrdev;
pub(crate) mod clk;
pub(crate) mod clock;
pub(crate) mod component;
pub(crate) mod coredump;
pub(crate) mod debugfs;
pub(crate) mod decimal;
pub(crate) mod dma;
pub(crate) mod dma_buf;
pub(crate) mod drm;
pub(crate) mod fence;
pub(crate) mod file;
pub(crate) mod framebuffer;
pub(crate) mod holder;
pub(crate) mod irq;
mod locked;
mod mapped;
pub(crate) mod mmio;
pub(crate) mod pages;
pub(crate) mod params;
pub(crate) mod physical;
pub(crate) mod platform;
pub(crate) mod power;
pub(crate) mod prelude;
pub(crate) mod procfs;
pub(crate) mod region;
pub(crate) mod reset;
pub(crate) mod slot;
pub(crate) mod trace;
pub(crate) mod tree;
pub(crate) mod unload;
pub(crate) mod user;
pub(crate) mod views;
pub(crate) mod vma;
pub(crate) mod window;
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
    mm::Mm,
    task::Task, //
};

/// For memory that clients request: charged to the caller's memory cgroup. The allocation fails
/// rather than invoke the OOM killer, which would not find the culprit: GPU memory belongs to no
/// process.
pub(crate) const GFP_CLIENT: Flags = {
    let fails = 1 << bindings::___GFP_RETRY_MAYFAIL_BIT | 1 << bindings::___GFP_NOWARN_BIT;
    let raw: bindings::gfp_t = bindings::GFP_KERNEL_ACCOUNT | fails;
    // SAFETY: `Flags` is one number of this type and has no invariant; one of another size would not
    // compile, and `galcore_sys` compares known ones.
    unsafe { core::mem::transmute::<bindings::gfp_t, Flags>(raw) }
};

/// The C pointer of a device.
fn raw_device(dev: &device::Device) -> *mut bindings::device {
    // `device::Device` is a transparent wrapper of `struct device`.
    core::ptr::from_ref(dev)
        .cast_mut()
        .cast::<bindings::device>()
}

/// Maps `bytes` of `file` at byte `offset` into the calling process, shared, readable and, with
/// `write`, writable. Calls the file's `mmap`, so the caller must not hold a lock that this takes.
/// Returns the address. `ESRCH`: the caller is a kernel thread.
///
/// # Safety
///
/// The file is open for the length of the call.
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
    // SAFETY: By the caller; the memory manager checks the rest.
    let address = unsafe { bindings::vm_mmap(file, 0, bytes, protection, 1, offset) };
    // Values in the upper half are error numbers, or on a 3G/1G split also user addresses.
    let errno = address.wrapping_neg();
    if isize::try_from(address).is_err() && errno < 4096 {
        // CAST: below 4096.
        Err(Error::from_errno(-(errno as kernel::ffi::c_int)))
    } else {
        Ok(address)
    }
}

/// A physical, bus or resource address as 64 bits, whatever the machine's width.
pub(crate) fn widen(address: impl Into<u64>) -> u64 {
    address.into()
}

/// Bytes of available memory, and of all memory.
pub(crate) fn memory_bytes() -> (usize, usize) {
    // SAFETY: Both calls read counters of the memory manager and have no preconditions.
    let (available, total) = unsafe { (shim::gal_available_pages(), shim::gal_total_pages()) };
    let in_bytes = |pages: usize| pages.saturating_mul(PAGE_SIZE);
    (in_bytes(available), in_bytes(total))
}

/// Whether `bytes` of contiguous memory come from memory that [`memory_bytes`] does not count.
pub(crate) fn is_apart(bytes: usize) -> bool {
    // SAFETY: The call compares a number with the size of CMA and has no preconditions.
    unsafe { shim::gal_is_apart(bytes) }
}

/// Whether dynamic debug is on (`module galcore +p`): the log then says why requests are refused.
pub(crate) fn debugs() -> bool {
    // SAFETY: The call reads a flag and has no preconditions.
    unsafe { shim::gal_debugs() }
}

/// Whether the paths of jobs and of allocations look at what the admin has set: a static key, which
/// costs nothing while it is off.
#[inline(always)]
pub(crate) fn watches_paths() -> bool {
    // SAFETY: C has defined the key.
    unsafe { kernel::jump_label::static_branch_unlikely!(shim::gal_paths, shim::gal_key, key) }
}

/// Sets that key. Sleeps.
pub(crate) fn watch_paths(on: bool) {
    // SAFETY: It may be called wherever sleeping is allowed.
    unsafe { shim::gal_watch_paths(on) }
}

/// Whether the calling thread is being killed: what it does for itself must end soon.
pub(crate) fn is_killed() -> bool {
    // SAFETY: Only looks at the calling thread.
    unsafe { shim::gal_is_killed() }
}

/// Whether a handler of a pending Unix signal of the calling thread restarts system calls
/// (`SA_RESTART`), or there is no handler. The kernel itself checks only the first handler.
pub(crate) fn will_restart() -> bool {
    // SAFETY: Only looks at the calling thread.
    unsafe { shim::gal_will_restart() }
}

/// Whether the process of `task` is exiting, with all threads, or has exited.
pub(crate) fn is_ending(task: &Task) -> bool {
    // SAFETY: The reference guarantees a live task, of which the call reads flags.
    unsafe { shim::gal_is_ending(task.as_ptr()) }
}

/// The nice value of the calling thread: -20 to 19.
pub(crate) fn nice() -> i32 {
    // SAFETY: Only looks at the calling thread.
    unsafe { shim::gal_nice() }
}

/// Reschedules if needed. Not in atomic context.
pub(crate) fn yield_if_due() {
    // SAFETY: May be called wherever sleeping is allowed.
    unsafe { shim::gal_yield() }
}

/// A random number that cannot be predicted.
pub(crate) fn random() -> u32 {
    // SAFETY: May be called from any context.
    unsafe { bindings::get_random_u32() }
}

/// Whether the calling program has 32 or 64 bits.
pub(crate) fn program_bits() -> u8 {
    // SAFETY: Only looks at the calling thread.
    match cfg!(not(CONFIG_64BIT)) || unsafe { shim::gal_in_compat_call() } {
        true => 32,
        false => 64,
    }
}

/// The highest address that the calling program can use: that of a 32-bit program is below 4 GiB,
/// even with a 64-bit kernel.
pub(crate) fn highest_user_address() -> usize {
    match program_bits() {
        // CAST: 32 bits into at least 32.
        32 => u32::MAX as usize,
        _ => usize::MAX,
    }
}

/// Whether the calling process has `CAP_SYS_ADMIN`.
pub(crate) fn is_admin() -> bool {
    // SAFETY: May be called from any process context; the number is a valid capability.
    unsafe { bindings::capable(bindings::CAP_SYS_ADMIN as kernel::ffi::c_int) }
}

/// Whether the calling process may observe others (`CAP_PERFMON`, or `CAP_SYS_ADMIN`).
pub(crate) fn may_profile() -> bool {
    // SAFETY: May be called from any process context; the number is a valid capability.
    unsafe { bindings::capable(bindings::CAP_PERFMON as kernel::ffi::c_int) || is_admin() }
}

/// The calling thread's real user, as a global ID.
pub(crate) fn user_id() -> u32 {
    // SAFETY: Only looks at the calling thread.
    unsafe { shim::gal_user_id() }
}

/// The calling thread's effective user, as a global ID, unique across user namespaces.
pub(crate) fn effective_user_id() -> u32 {
    // SAFETY: Only looks at the calling thread.
    unsafe { shim::gal_effective_user_id() }
}

/// Sleeps about `milliseconds`. `EINTR`: a Unix signal came first.
pub(crate) fn sleep(milliseconds: u32) -> Result {
    // SAFETY: Called where sleeping is allowed, as all functions that may fail with `EINTR`.
    kernel::error::to_result(unsafe { shim::gal_sleep(milliseconds) })
}

/// A thread's command name, as the kernel's log shows it.
#[derive(Clone)]
pub(crate) struct CommandName([u8; 16]);

impl CommandName {
    /// The name of the calling thread.
    pub(crate) fn of_caller() -> Self {
        let mut name = [0; 16];
        // SAFETY: There is room for that many bytes.
        unsafe { shim::gal_command_name(name.as_mut_ptr().cast(), name.len()) };
        Self(name)
    }

    /// The bytes, padded with zeros.
    pub(crate) fn bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// The current name of `task`.
    pub(crate) fn of(task: &Task) -> Self {
        let mut name = [0; 16];
        // SAFETY: The task is referenced; there is room for that many bytes.
        unsafe { shim::gal_task_name(task.as_ptr(), name.as_mut_ptr().cast(), name.len()) };
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
    // SAFETY: The task is referenced; the number stays as long as it does.
    unsafe { (*task.as_ptr()).tgid }
}

/// The leader of the process with ID `number` in the caller's namespace. `None`: there is none.
pub(crate) fn leader_of(number: i32) -> Option<ARef<Task>> {
    // SAFETY: The call looks the number up under RCU and returns null where no process has it.
    let leader = NonNull::new(unsafe { shim::gal_find_leader(number) })?;
    // SAFETY: It came with a reference, which becomes ours. `Task` is a transparent wrapper.
    Some(unsafe { ARef::from_raw(leader.cast()) })
}

/// The start time of a task's process, which distinguishes processes that had the same ID.
pub(crate) fn start_time(task: &Task) -> u64 {
    // SAFETY: The task is referenced; the time stays as long as it does.
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
    // SAFETY: The reference guarantees a live task, which is only compared with the caller's.
    unsafe { shim::gal_is_thread_of(leader.as_ptr()) }
}

/// Sends realtime signal `number` with `value` to the process of `leader`, unless that has a memory
/// map other than `mm`: then it executes another program, whose rights may exceed the sender's.
/// Ignores failures: the receiver's queue is full, or it has exited.
pub(crate) fn send_signal(leader: &Task, mm: &Mm, number: i32, value: u32) {
    // SAFETY: The task is referenced, and so is the memory map, which is only compared.
    unsafe { shim::gal_send_signal(leader.as_ptr(), mm.as_raw(), number, value) };
}

/// Disables preemption while it lives, for work that others wait for. The thread must not sleep.
pub(crate) struct NoPreemption(core::marker::PhantomData<*mut ()>);

impl NoPreemption {
    /// Disables preemption.
    pub(crate) fn new() -> Self {
        // SAFETY: Ended by the drop, in the same thread: the type is not `Send`.
        unsafe { shim::gal_preempt_disable() };
        Self(core::marker::PhantomData)
    }
}

impl Drop for NoPreemption {
    fn drop(&mut self) {
        // SAFETY: `new` disabled preemption in this thread (the type is not `Send`), and only this
        // drop enables it again.
        unsafe { shim::gal_preempt_enable() }
    }
}

/// The kernel's tick counter, which never wraps.
pub(crate) fn jiffies64() -> u64 {
    // SAFETY: Reading the tick counter has no preconditions.
    unsafe { shim::gal_jiffies64() }
}

/// Ticks a second.
pub(crate) const HZ: u32 = shim::gal_ticks_GAL_HZ;

/// The kernel's tick counter.
pub(crate) fn jiffies() -> usize {
    // SAFETY: A word that the timer interrupt writes; any value that it had is correct.
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
    }
}
