//! The VFS: the system's own, with opens and deletions noted.

use std::{
    ffi::{CStr, CString, OsStr, c_char, c_int, c_void},
    io,
    mem::{align_of, size_of},
    os::unix::ffi::OsStrExt,
    path::PathBuf,
    ptr,
    sync::{Arc, Mutex, PoisonError},
};

use rusqlite::ffi::{self, sqlite3_file, sqlite3_vfs};

use crate::{
    file::{self, File},
    log::{Tape, parent},
};

/// What our VFS carries in `pAppData`.
struct App {
    real: *mut sqlite3_vfs,
    tape: Arc<Tape>,
}

/// A registered VFS. Its memory is never freed, since open databases point into it.
pub(crate) struct Registered(*mut sqlite3_vfs);

// SAFETY: the VFS behind the pointer is never freed, and after its registration only SQLite
// touches it, under its own mutex.
unsafe impl Send for Registered {}
// SAFETY: as above; there is no method that changes anything through a shared reference.
unsafe impl Sync for Registered {}

impl Registered {
    /// Removes the name, so that nothing more can be opened by it.
    pub(crate) fn unregister(&self) {
        // SAFETY: the pointer was registered and stays valid for ever; SQLite locks its list.
        unsafe { ffi::sqlite3_vfs_unregister(self.0) };
    }
}

/// Two registrations at once would both find their name free.
static REGISTERING: Mutex<()> = Mutex::new(());

pub(crate) fn register(name: CString, tape: Arc<Tape>) -> io::Result<Registered> {
    let _one = REGISTERING.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: null asks for the default VFS and `name` is a C string; the answers are null or a
    // VFS that lives as long as the process (nobody unregisters the default one).
    let (real, taken) =
        unsafe { (ffi::sqlite3_vfs_find(ptr::null()), ffi::sqlite3_vfs_find(name.as_ptr())) };
    if real.is_null() {
        return Err(io::Error::other("SQLite has no default VFS"));
    }
    if !taken.is_null() {
        let message = format!("there is a VFS named {} already", name.to_string_lossy());
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
    }
    // SAFETY: not null, and a VFS that SQLite has registered.
    let (size, path, version) = unsafe { ((*real).szOsFile, (*real).mxPathname, (*real).iVersion) };
    let app = Box::into_raw(Box::new(App { real, tape }));
    let vfs = Box::into_raw(Box::new(sqlite3_vfs {
        // Version 3 adds only the replacement of system calls, which is the real one's affair.
        iVersion: version.min(2),
        szOsFile: size_of::<File>() as c_int + size,
        mxPathname: path,
        pNext: ptr::null_mut(),
        zName: name.into_raw(),
        pAppData: app.cast(),
        xOpen: Some(open),
        xDelete: Some(delete),
        xAccess: Some(access),
        xFullPathname: Some(full_pathname),
        xDlOpen: Some(dl_open),
        xDlError: Some(dl_error),
        xDlSym: Some(dl_sym),
        xDlClose: Some(dl_close),
        xRandomness: Some(randomness),
        xSleep: Some(sleep),
        xCurrentTime: Some(current_time),
        xGetLastError: Some(get_last_error),
        xCurrentTimeInt64: Some(current_time_int64),
        xSetSystemCall: None,
        xGetSystemCall: None,
        xNextSystemCall: None,
    }));
    // SAFETY: a complete VFS in memory that is never freed; 0 leaves the default as it is.
    match unsafe { ffi::sqlite3_vfs_register(vfs, 0) } {
        ffi::SQLITE_OK => Ok(Registered(vfs)),
        code => Err(io::Error::other(format!("SQLite refused the VFS (code {code})"))),
    }
}

/// SAFETY of the caller: `vfs` is one of ours.
unsafe fn app<'a>(vfs: *mut sqlite3_vfs) -> &'a App {
    // SAFETY: `pAppData` of our VFS points to an `App` that is never freed or changed.
    unsafe { &*(*vfs).pAppData.cast::<App>() }
}

/// SAFETY of the caller: `name` is a C string.
unsafe fn path(name: *const c_char) -> PathBuf {
    // SAFETY: given by the caller.
    PathBuf::from(OsStr::from_bytes(unsafe { CStr::from_ptr(name) }.to_bytes()))
}

/// Calls a method of the real VFS, or answers `$else` if it has none.
macro_rules! forward {
    ($vfs:ident . $method:ident ( $($arg:expr),* ) else $else:expr) => {{
        // SAFETY: SQLite calls us with our own VFS, whose real one lives for ever; the other
        // arguments are passed on as they came, under the same contract.
        unsafe {
            let real = app($vfs).real;
            match (*real).$method {
                Some(method) => method(real $(, $arg)*),
                None => $else,
            }
        }
    }};
}

const RECORDED: c_int = ffi::SQLITE_OPEN_MAIN_DB | JOURNALS;
const JOURNALS: c_int =
    ffi::SQLITE_OPEN_MAIN_JOURNAL | ffi::SQLITE_OPEN_SUPER_JOURNAL | ffi::SQLITE_OPEN_WAL;

unsafe extern "C" fn open(
    vfs: *mut sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    const { assert!(align_of::<File>() <= 8, "SQLite aligns files to eight bytes") };
    let ours = file.cast::<File>();
    // SAFETY: SQLite gives us `szOsFile` bytes: room for our part and the real file behind it.
    // No method table means "not open", should we fail below.
    let real = unsafe {
        (*file).pMethods = ptr::null();
        let real = File::real(ours);
        (*real).pMethods = ptr::null();
        real
    };
    let recorded = if flags & RECORDED == 0 || name.is_null() {
        None
    } else {
        // SAFETY: our VFS, and a C string from SQLite.
        let (tape, path) = unsafe { (&app(vfs).tape, path(name)) };
        // Never while SQLite may have it open: closing any descriptor of a file drops all of the
        // process's POSIX locks on it.
        let before = if tape.knows(&path) { None } else { std::fs::read(&path).ok() };
        Some((path, before))
    };
    let code = forward!(vfs.xOpen(name, real, flags, out) else ffi::SQLITE_CANTOPEN);
    if code != ffi::SQLITE_OK {
        // SAFETY: a real file with methods has to be closed even if its opening failed; SQLite
        // won't, because ours has none.
        unsafe { file::close_real(real) };
        return code;
    }
    // SAFETY: our VFS.
    let tape = Arc::clone(&unsafe { app(vfs) }.tape);
    let dir = recorded.as_ref().map(|(path, _)| parent(path)).unwrap_or_default();
    let node = recorded.map(|(path, before)| tape.open(path, before));
    // The same rule as in SQLite's unix VFS.
    let sync_dir = flags & ffi::SQLITE_OPEN_CREATE != 0 && flags & JOURNALS != 0;
    // SAFETY: the memory is ours to fill and holds nothing yet that would have to be dropped.
    unsafe { ours.write(File::new(tape, node, dir, sync_dir)) };
    code
}

unsafe extern "C" fn delete(vfs: *mut sqlite3_vfs, name: *const c_char, sync: c_int) -> c_int {
    // SAFETY: our VFS, and a C string from SQLite.
    let (tape, path) = unsafe { (&app(vfs).tape, path(name)) };
    // As with files, the flush is noted and not passed on.
    let code = forward!(vfs.xDelete(name, 0) else ffi::SQLITE_IOERR_DELETE);
    if code == ffi::SQLITE_OK {
        tape.delete(&path, sync != 0 && !tape.drops_syncs());
    }
    code
}

unsafe extern "C" fn access(
    vfs: *mut sqlite3_vfs,
    name: *const c_char,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    forward!(vfs.xAccess(name, flags, out) else ffi::SQLITE_IOERR_ACCESS)
}

unsafe extern "C" fn full_pathname(
    vfs: *mut sqlite3_vfs,
    name: *const c_char,
    room: c_int,
    out: *mut c_char,
) -> c_int {
    forward!(vfs.xFullPathname(name, room, out) else ffi::SQLITE_CANTOPEN)
}

unsafe extern "C" fn dl_open(vfs: *mut sqlite3_vfs, name: *const c_char) -> *mut c_void {
    forward!(vfs.xDlOpen(name) else ptr::null_mut())
}

unsafe extern "C" fn dl_error(vfs: *mut sqlite3_vfs, room: c_int, out: *mut c_char) {
    forward!(vfs.xDlError(room, out) else ());
}

type Symbol = Option<unsafe extern "C" fn(*mut sqlite3_vfs, *mut c_void, *const c_char)>;

unsafe extern "C" fn dl_sym(
    vfs: *mut sqlite3_vfs,
    library: *mut c_void,
    symbol: *const c_char,
) -> Symbol {
    forward!(vfs.xDlSym(library, symbol) else None)
}

unsafe extern "C" fn dl_close(vfs: *mut sqlite3_vfs, library: *mut c_void) {
    forward!(vfs.xDlClose(library) else ());
}

unsafe extern "C" fn randomness(vfs: *mut sqlite3_vfs, room: c_int, out: *mut c_char) -> c_int {
    forward!(vfs.xRandomness(room, out) else 0)
}

unsafe extern "C" fn sleep(vfs: *mut sqlite3_vfs, micros: c_int) -> c_int {
    forward!(vfs.xSleep(micros) else 0)
}

unsafe extern "C" fn current_time(vfs: *mut sqlite3_vfs, out: *mut f64) -> c_int {
    forward!(vfs.xCurrentTime(out) else ffi::SQLITE_ERROR)
}

unsafe extern "C" fn get_last_error(vfs: *mut sqlite3_vfs, room: c_int, out: *mut c_char) -> c_int {
    forward!(vfs.xGetLastError(room, out) else 0)
}

unsafe extern "C" fn current_time_int64(vfs: *mut sqlite3_vfs, out: *mut i64) -> c_int {
    forward!(vfs.xCurrentTimeInt64(out) else ffi::SQLITE_ERROR)
}
