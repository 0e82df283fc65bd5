//! Declarations of the C library, as Linux has them on x86-64 and aarch64.

use core::ffi::{c_char, c_int, c_long, c_uint, c_void};

pub(crate) const RTLD_NEXT: *mut c_void = -1_isize as *mut c_void;
pub(crate) const O_WRONLY: c_int = 1;
pub(crate) const O_RDWR: c_int = 2;
pub(crate) const O_CLOEXEC: c_int = 0o2000000;
pub(crate) const PROT_READ: c_int = 1;
pub(crate) const PROT_WRITE: c_int = 2;
pub(crate) const MAP_SHARED: c_int = 1;
/// Private memory of zeros, for which nothing is reserved, at the given address unless something is there.
pub(crate) const MAP_LAZILY: c_int = 0x2 | 0x20 | 0x4000 | 0x100000;
pub(crate) const MADV_DONTNEED: c_int = 4;
pub(crate) const STDERR: c_int = 2;
pub(crate) const PR_SET_PDEATHSIG: c_int = 1;
pub(crate) const SIGTERM: c_int = 15;
/// Number of the kernel's call that ends a process.
#[cfg(target_arch = "x86_64")]
pub(crate) const EXIT_GROUP: c_long = 231;
#[cfg(target_arch = "aarch64")]
pub(crate) const EXIT_GROUP: c_long = 94;

/// First fields of `struct dl_phdr_info`.
#[repr(C)]
pub(crate) struct LoadedObject {
    pub(crate) address: usize,
    pub(crate) name: *const c_char,
}

pub(crate) type ObjectVisitor = extern "C" fn(*const LoadedObject, usize, *mut c_void) -> c_int;

unsafe extern "C" {
    #[cfg(not(test))]
    pub(crate) fn abort() -> !;
    pub(crate) fn close(descriptor: c_int) -> c_int;
    pub(crate) fn dl_iterate_phdr(visit: ObjectVisitor, data: *mut c_void) -> c_int;
    pub(crate) fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    pub(crate) fn free(memory: *mut c_void);
    pub(crate) fn getenv(name: *const c_char) -> *const c_char;
    pub(crate) fn getpid() -> c_int;
    pub(crate) fn getppid() -> c_int;
    pub(crate) fn madvise(at: *mut c_void, size: usize, advice: c_int) -> c_int;
    pub(crate) fn mmap(
        at: *mut c_void,
        size: usize,
        protection: c_int,
        flags: c_int,
        descriptor: c_int,
        offset: isize,
    ) -> *mut c_void;
    pub(crate) fn munmap(at: *mut c_void, size: usize) -> c_int;
    pub(crate) fn on_exit(function: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
    pub(crate) fn open(path: *const c_char, flags: c_int, ...) -> c_int;
    pub(crate) fn posix_memalign(memory: *mut *mut c_void, alignment: usize, size: usize) -> c_int;
    pub(crate) fn prctl(option: c_int, ...) -> c_int;
    pub(crate) fn pthread_getspecific(key: c_uint) -> *mut c_void;
    pub(crate) fn pthread_key_create(key: *mut c_uint, destroy: extern "C" fn(*mut c_void)) -> c_int;
    pub(crate) fn pthread_mutex_lock(mutex: *mut c_void) -> c_int;
    pub(crate) fn pthread_mutex_unlock(mutex: *mut c_void) -> c_int;
    pub(crate) fn pthread_setspecific(key: c_uint, value: *const c_void) -> c_int;
    pub(crate) fn raise(signal: c_int) -> c_int;
    pub(crate) fn setenv(name: *const c_char, value: *const c_char, overwrite: c_int) -> c_int;
    pub(crate) fn syscall(number: c_long, ...) -> c_long;
    pub(crate) fn unsetenv(name: *const c_char) -> c_int;
    pub(crate) fn write(descriptor: c_int, bytes: *const c_void, count: usize) -> isize;
}
