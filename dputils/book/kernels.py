"""Kernels forked from a warm parent: the imports of the book are done once, and each kernel starts
with them.

    with kernels.forked():
        ...  # every kernel that this process starts, by nbclient or papermill, is forked

The parent is this file run as a script. It imports, starts no thread, and then waits for orders on
a socket: fork a kernel, say whether it lives, send it a signal. A forked process gets the
environment, the folder and the arguments that a fresh kernel would have got, and runs the same
`ipykernel`; so every output is the same to the byte.

No kernel outlives the process that asked for it, however that ends: when the socket closes, the
parent kills its kernels and leaves. A kernel whose command or environment is not the parent's own
(another interpreter, another hash seed) is started in the ordinary way, and so is every kernel
where there is no `fork`.
"""

import gc
import importlib
import json
import os
import pkgutil
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

# What the book imports, and what a kernel imports for itself. Not `matplotlib_inline`: it looks for
# its kernel at once.
BOOK = (
    "numpy",
    "scipy.special",
    "scipy.optimize",
    "scipy.integrate",
    "pandas",
    "ipywidgets",
    "nbformat",
    "matplotlib.figure",
    "matplotlib.backends.backend_agg",
    "dputils",
)
KERNEL = (
    "ipykernel.kernelapp",
    "ipykernel.zmqshell",
    "ipykernel.ipkernel",
    "ipykernel.debugger",
    "debugpy.server.api",
    "psutil",
    "sqlite3",
    "tornado.platform.asyncio",
    "IPython.core.debugger",
    "IPython.core.completerlib",
    "IPython.core.logger",
    "IPython.extensions.storemagic",
)
# Read once when Python, a library or IPython starts: a fork cannot change them any more.
AT_START = (
    "PYTHONHASHSEED",
    "PYTHONPATH",
    "PYTHONWARNINGS",
    "PYTHONUTF8",
    "PYTHONOPTIMIZE",
    "MPLBACKEND",
    "MPLCONFIGDIR",
    "MATPLOTLIBRC",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_CORETYPE",
    "NPY_DISABLE_CPU_FEATURES",
    "GLIBC_TUNABLES",
    "DPUTILS_DATA",
)
# Otherwise pyarrow, which pandas imports, starts a thread, and the debugger warns on the terminal.
QUIET = {
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",
}
NAME = "forked-provisioner"


@dataclass
class Parent:
    """The warm parent as its client sees it: a process, the socket to it, and the settings it was
    started with.
    """

    process: subprocess.Popen
    link: socket.socket
    settings: dict
    # Processor time of each kernel that has ended, by process number.
    seconds: dict = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def ask(self, *order):
        """Send an order and return the answer; `ConnectionError` if the parent is gone."""
        with self.lock:
            self.link.sendall(json.dumps(order).encode() + b"\n")
            answer = b""
            while not answer.endswith(b"\n"):
                part = self.link.recv(65536)
                if not part:
                    raise ConnectionError("the parent of the kernels is gone")
                answer += part
        return json.loads(answer)

    def close(self):
        """Let the parent kill its kernels and leave; while it still imports it has none, and is
        killed.
        """
        # Closing alone is not seen while another thread waits for an answer.
        self.link.shutdown(socket.SHUT_RDWR)
        self.link.close()
        try:
            self.process.wait(timeout=0.5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@dataclass
class Forked:
    """A forked kernel in place of the `subprocess.Popen` that jupyter_client expects."""

    parent: Parent
    pid: int
    returncode: int | None = None
    stdin = stdout = stderr = None

    def poll(self):
        """Return the exit status, or None while the kernel lives."""
        if self.returncode is None:
            try:
                self.returncode, seconds = self.parent.ask("poll", self.pid)
            except OSError:  # who has no parent is dead, or will be in a second
                self.returncode, seconds = -signal.SIGKILL, None
            if seconds is not None:
                self.parent.seconds[self.pid] = seconds
        return self.returncode

    def wait(self):
        """Return the exit status of a kernel that has ended; jupyter_client polls until then."""
        return self.poll()

    def send_signal(self, number):
        """Send a signal to the kernel and the processes it has started."""
        self.parent.ask("signal", self.pid, int(number))


def can_fork():
    """Return whether kernels can be forked: on Linux (macOS has libraries that a fork breaks,
    Windows has no fork) and with one thread for linear algebra, as make sets it: a process with
    threads must not fork."""
    return sys.platform.startswith("linux") and os.environ.get("OPENBLAS_NUM_THREADS") == "1"


def start():
    """Start a warm parent and return it; the imports go on while the caller does something else."""
    mine, its = socket.socketpair()
    process = subprocess.Popen(
        [sys.executable, __file__, str(its.fileno())],
        pass_fds=[its.fileno()],
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, **QUIET},
    )
    its.close()
    return Parent(process, mine, settings(os.environ))


def settings(environment):
    """Return what is fixed when a kernel's Python starts."""
    return {name: environment.get(name) for name in AT_START}


@contextmanager
def forked():
    """Fork every kernel that this process starts within the block; yield the `Parent`, None where
    there is no fork.
    """
    if not can_fork():
        yield None
        return
    parent = start()
    try:
        with use(parent):
            yield parent
    finally:
        parent.close()


@contextmanager
def use(parent):
    """Fork every kernel that this process starts within the block from a parent that is there.

    For None they start in the ordinary way, or as an outer block says. All talk through files where
    the platform has such sockets.
    """
    from jupyter_client.provisioning.factory import KernelProvisionerFactory

    factory = KernelProvisionerFactory.instance()
    before = factory.default_provisioner_name
    if parent is None and (before == NAME or os.name != "posix"):
        yield
        return
    known = factory.provisioners
    factory.provisioners = {**known, NAME: Entry(parent)}
    factory.default_provisioner_name = NAME
    try:
        yield
    finally:
        factory.default_provisioner_name = before
        factory.provisioners = known


@dataclass(frozen=True)
class Entry:
    """What jupyter_client loads a provisioner from: an entry point that no package has declared."""

    parent: Parent | None

    def load(self):
        """Return a provisioner that starts kernels by this parent, if there is one."""
        from jupyter_client.provisioning import LocalProvisioner

        parent = self.parent

        class Provisioner(LocalProvisioner):
            """Forks what the parent can fork, and starts everything else as always."""

            async def pre_launch(self, **options):
                """Let the kernel talk through sockets that are files: a free port may be taken by
                somebody else before the kernel has it.
                """
                folder = tempfile.mkdtemp(prefix="kernel-")
                self.parent.transport, self.parent.ip = "ipc", os.path.join(folder, "at")
                return await super().pre_launch(**options)

            async def cleanup(self, restart=False):
                """Remove the folder of the sockets, too."""
                await super().cleanup(restart)
                if not restart:
                    shutil.rmtree(os.path.dirname(self.parent.ip), ignore_errors=True)

            async def launch_kernel(self, cmd, **options):
                """Start a kernel and return where it listens."""
                if not serves(parent, cmd, options["env"]):
                    return await super().launch_kernel(cmd, **options)
                folder = str(options.get("cwd") or os.getcwd())
                self.pid = self.pgid = parent.ask("fork", cmd[2:], options["env"], folder)
                self.process = Forked(parent, self.pid)
                return self.connection_info

            async def send_signal(self, signum):
                """Send a signal, through the parent, which knows whether the number is still the
                kernel's.
                """
                if isinstance(self.process, Forked):
                    self.process.send_signal(signum)
                else:
                    await super().send_signal(signum)

        return Provisioner


def serves(parent, command, environment):
    """Return whether a kernel of this command and environment can be forked from the parent."""
    return (
        parent is not None
        and command[:1] == [sys.executable]
        and command[1:3] == ["-m", "ipykernel_launcher"]
        and settings(environment) == parent.settings
        and parent.process.poll() is None
    )


# ---- the parent's own side: run as a script, without this package -------------------------------


def warm_up():
    """Import what kernels need, and return what that has added to the environment.

    Leave if the client is gone meanwhile, or if an import has started a thread.
    """
    client = os.getppid()
    os.environ["MPLBACKEND"] = (
        os.environ.get("MPLBACKEND") or "module://matplotlib_inline.backend_inline"
    )
    before = set(os.environ)
    for name in (*KERNEL, *BOOK, *modules()):
        importlib.import_module(name)
        if os.getppid() != client:
            sys.exit(1)
    if len(os.listdir("/proc/self/task")) > 1:
        sys.exit("the imports of the book have started threads: kernels cannot be forked")
    gc.collect()
    gc.freeze()  # what is there stays shared: no collection in a kernel touches it
    return {name: value for name, value in os.environ.items() if name not in before}


def modules():
    """Return the names of all modules of `dputils`, the folder above this one."""
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return sorted(found.name for found in pkgutil.walk_packages([folder], "dputils."))


def serve(link):
    """Obey orders until the client is gone; return the arguments of a kernel in a forked process,
    None in the parent.
    """
    living = set()
    with suppress(OSError):  # the client is gone, also while it is read or answered
        for line in link.makefile("r", encoding="utf-8"):
            what, *order = json.loads(line)
            if what == "fork":
                number, answer = os.getpid(), os.fork()
                if not answer:
                    link.close()
                    return number, *order
                living.add(answer)
            elif what == "poll":
                answer = status(order[0], living)
            else:
                answer = send(*order, living)
            link.sendall(json.dumps(answer).encode() + b"\n")
    for pid in living:
        send(pid, signal.SIGKILL, living)
    return None


def status(pid, living):
    """Return `(exit status, processor seconds)` of a kernel; both are None while it lives."""
    if pid not in living:
        return -signal.SIGKILL, None
    ended, code, used = os.wait4(pid, os.WNOHANG)
    if not ended:
        return None, None
    living.discard(pid)
    return os.waitstatus_to_exitcode(code), used.ru_utime + used.ru_stime


def send(pid, number, living):
    """Send a signal to a kernel's process group if it has not been waited for; return whether it
    was sent.
    """
    if pid not in living:
        return False
    try:
        os.killpg(pid, number)
    except ProcessLookupError:  # forked a moment ago and not yet the head of a group
        os.kill(pid, number)
    return True


def become_kernel(added, parent, arguments, environment, folder):
    """Be what `python -m ipykernel_launcher ARGUMENTS` is in this environment and folder; return
    when it ends.
    """
    import numpy as np
    from ipykernel import kernelapp

    os.setsid()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # a sweep keeps it from its workers
    os.environ.clear()
    os.environ.update({**added, **environment})
    os.chdir(folder)
    # Who draws without a generator gets other numbers in each kernel, as always.
    np.random.seed()  # noqa: NPY002
    sys.argv = [importlib.util.find_spec(arguments[0]).origin, *arguments[1:]]
    kernelapp.launch_new_instance(parent_handle=parent)  # it leaves when its parent does


if __name__ == "__main__":
    del sys.path[0]  # this folder, which a kernel does not see
    added = warm_up()
    if ordered := serve(socket.socket(fileno=int(sys.argv[1]))):
        become_kernel(added, *ordered)
