//! An open file: the real one, with writes and flushes noted.

use std::{
    ffi::{c_int, c_void},
    path::PathBuf,
    ptr,
    sync::Arc,
};

use rusqlite::ffi::{self, sqlite3_file, sqlite3_io_methods};

use crate::log::{Entry, Node, Tape};

/// Our part of an open file. The real file lies right behind it in the same memory.
#[repr(C)]
pub(crate) struct File {
    base: sqlite3_file,
    tape: Arc<Tape>,
    /// `None` for temporary files, which don't outlive a power cut by design.
    node: Option<Node>,
    dir: PathBuf,
    /// The next flush is the first and takes the directory along.
    sync_dir: bool,
}

impl File {
    pub(crate) fn new(tape: Arc<Tape>, node: Option<Node>, dir: PathBuf, sync_dir: bool) -> File {
        File { base: sqlite3_file { pMethods: &METHODS }, tape, node, dir, sync_dir }
    }

    /// Where the real file lies.
    ///
    /// SAFETY of the caller: `file` points to the `szOsFile` bytes that SQLite allots to a file.
    pub(crate) unsafe fn real(file: *mut File) -> *mut sqlite3_file {
        // SAFETY: `szOsFile` is the size of `File` and of a real file together, and the size of
        // `File` is a multiple of its alignment, which is that of a pointer.
        unsafe { file.add(1).cast() }
    }
}

/// Closes a real file if it has methods.
///
/// SAFETY of the caller: `real` was passed to the real `xOpen` and is not closed yet.
pub(crate) unsafe fn close_real(real: *mut sqlite3_file) -> c_int {
    // SAFETY: given by the caller; a method table lives for ever.
    unsafe {
        match (*real).pMethods.as_ref().and_then(|methods| methods.xClose) {
            Some(close) => close(real),
            None => ffi::SQLITE_OK,
        }
    }
}

/// SAFETY of the caller: `file` was opened by our VFS and is not closed. The answer must not be
/// kept beyond the call, and SQLite makes no two calls on one file at once.
unsafe fn ours<'a>(file: *mut sqlite3_file) -> &'a mut File {
    // SAFETY: given by the caller.
    unsafe { &mut *file.cast::<File>() }
}

/// Calls a method of the real file, or answers `$else` if it has none.
macro_rules! forward {
    ($file:ident . $method:ident ( $($arg:expr),* ) if $version:literal else $else:expr) => {{
        // SAFETY: SQLite calls us with a file that our VFS opened, so the real one behind it is
        // open too; the other arguments are passed on as they came, under the same contract. A
        // method is looked at only if the table is new enough to have it.
        unsafe {
            let real = File::real($file.cast());
            let methods = (*real).pMethods;
            let method = if (*methods).iVersion >= $version { (*methods).$method } else { None };
            match method {
                Some(method) => method(real $(, $arg)*),
                None => $else,
            }
        }
    }};
    ($file:ident . $method:ident ( $($arg:expr),* )) => {
        forward!($file.$method($($arg),*) if 1 else ffi::SQLITE_IOERR)
    };
}

static METHODS: sqlite3_io_methods = sqlite3_io_methods {
    iVersion: 3,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: Some(fetch),
    xUnfetch: Some(unfetch),
};

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    // SAFETY: open until now. SQLite takes a file for closed whatever we answer, so this is the
    // one time that our part is dropped.
    unsafe {
        let code = close_real(File::real(file.cast()));
        ptr::drop_in_place(file.cast::<File>());
        (*file).pMethods = ptr::null();
        code
    }
}

unsafe extern "C" fn read(f: *mut sqlite3_file, to: *mut c_void, len: c_int, at: i64) -> c_int {
    forward!(f.xRead(to, len, at))
}

/// Noted only when it is done: a flush that began before then may have missed it.
unsafe extern "C" fn write(
    f: *mut sqlite3_file,
    from: *const c_void,
    len: c_int,
    at: i64,
) -> c_int {
    let code = forward!(f.xWrite(from, len, at));
    // SAFETY: an open file of ours.
    let file = unsafe { ours(f) };
    if let (ffi::SQLITE_OK, Some(node)) = (code, file.node) {
        // SAFETY: SQLite passes `len` readable bytes.
        let bytes = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), len as usize) };
        file.tape.push(Entry::Write(node, at as u64, bytes.into()));
    }
    code
}

unsafe extern "C" fn truncate(f: *mut sqlite3_file, size: i64) -> c_int {
    let code = forward!(f.xTruncate(size));
    // SAFETY: an open file of ours.
    let file = unsafe { ours(f) };
    if let (ffi::SQLITE_OK, Some(node)) = (code, file.node) {
        file.tape.push(Entry::Truncate(node, size as u64));
    }
    code
}

/// Noted, and not passed on: this machine keeps its power, and a busy disk would only make the
/// tests slow.
unsafe extern "C" fn sync(f: *mut sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: an open file of ours.
    let file = unsafe { ours(f) };
    let Some(node) = file.node else {
        return forward!(f.xSync(flags));
    };
    if file.tape.fails_sync() {
        return ffi::SQLITE_IOERR_FSYNC;
    }
    if file.tape.drops_syncs() {
        file.tape.push(Entry::DroppedSync(node));
        return ffi::SQLITE_OK;
    }
    let dir = std::mem::take(&mut file.sync_dir).then_some(file.dir.as_path());
    file.tape.sync(node, dir);
    ffi::SQLITE_OK
}

unsafe extern "C" fn file_size(f: *mut sqlite3_file, size: *mut i64) -> c_int {
    forward!(f.xFileSize(size))
}

unsafe extern "C" fn lock(f: *mut sqlite3_file, level: c_int) -> c_int {
    forward!(f.xLock(level))
}

unsafe extern "C" fn unlock(f: *mut sqlite3_file, level: c_int) -> c_int {
    forward!(f.xUnlock(level))
}

unsafe extern "C" fn check_reserved_lock(f: *mut sqlite3_file, out: *mut c_int) -> c_int {
    forward!(f.xCheckReservedLock(out))
}

/// A chunk size would let the real file grow in steps that are not noted; it is only a hint.
unsafe extern "C" fn file_control(f: *mut sqlite3_file, op: c_int, arg: *mut c_void) -> c_int {
    if op == ffi::SQLITE_FCNTL_CHUNK_SIZE {
        return ffi::SQLITE_NOTFOUND;
    }
    forward!(f.xFileControl(op, arg) if 1 else ffi::SQLITE_NOTFOUND)
}

unsafe extern "C" fn sector_size(f: *mut sqlite3_file) -> c_int {
    forward!(f.xSectorSize() if 1 else 0)
}

/// Only the one promise that the images keep is passed on; a real disk's further ones, such as
/// atomic batches, would let SQLite skip flushes that they need.
unsafe extern "C" fn device_characteristics(f: *mut sqlite3_file) -> c_int {
    forward!(f.xDeviceCharacteristics() if 1 else 0) & ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE
}

unsafe extern "C" fn shm_map(
    f: *mut sqlite3_file,
    region: c_int,
    size: c_int,
    extend: c_int,
    out: *mut *mut c_void,
) -> c_int {
    forward!(f.xShmMap(region, size, extend, out) if 2 else ffi::SQLITE_IOERR)
}

unsafe extern "C" fn shm_lock(f: *mut sqlite3_file, from: c_int, n: c_int, flags: c_int) -> c_int {
    forward!(f.xShmLock(from, n, flags) if 2 else ffi::SQLITE_IOERR)
}

unsafe extern "C" fn shm_barrier(f: *mut sqlite3_file) {
    forward!(f.xShmBarrier() if 2 else ());
}

unsafe extern "C" fn shm_unmap(f: *mut sqlite3_file, delete: c_int) -> c_int {
    forward!(f.xShmUnmap(delete) if 2 else ffi::SQLITE_OK)
}

/// A null page makes SQLite read instead.
unsafe extern "C" fn fetch(
    f: *mut sqlite3_file,
    at: i64,
    len: c_int,
    out: *mut *mut c_void,
) -> c_int {
    // SAFETY: SQLite passes a place for a pointer.
    unsafe { *out = ptr::null_mut() };
    forward!(f.xFetch(at, len, out) if 3 else ffi::SQLITE_OK)
}

unsafe extern "C" fn unfetch(f: *mut sqlite3_file, at: i64, page: *mut c_void) -> c_int {
    forward!(f.xUnfetch(at, page) if 3 else ffi::SQLITE_OK)
}
