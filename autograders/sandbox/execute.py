"""Runs a submitted notebook in the sandbox: hidden inputs laid out, limits held, no cell able to cost another."""

from __future__ import annotations

import contextlib
import copy
import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nbclient.client import NotebookClient
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbclient.util import run_sync
from nbformat import NotebookNode
from nbgrader.preprocessors import Execute
from traitlets import Bool, Float, Integer, Unicode

from .. import notebooks
from ..notebooks import STAMP
from ..probes import MIME
from ..questions.hidden_cases import DrawnCases, solutions
from ..questions.question import by_test_id
from ..reasons import Kind, Reason
from .control_groups import ControlGroup, counted
from .jail import Place, SandboxError, require_walls
from .kernel import make_manager, start_alone, started_process
from .limits import MEGABYTE, Limits
from .messages import plain
from .output import Meter
from .plan import ANSWER, OWN, RELEASED, SKIP, STAND_IN, TEST, NobodyToBlame, Plan, Step
from .student_files import copy_files, remove_followed_links
from .warm.warm import ForkError, warm_parent
from .watch import Watch, WatchError

# A full disk or a full table is the machine's fault: the submission fails, and no question is blamed.
_OUR_FAULT = (errno.ENOSPC, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EDQUOT)


class ProbedExecute(Execute):
    """Executes the notebook in the sandbox, with the hidden inputs of its questions.

    The inputs travel as plain data; the secret they are drawn from and what the judge knows besides stay here. When a
    cell hangs or ends the kernel, another kernel runs the rest without it.
    """

    course_root = Unicode(help="The course's working folder, which holds the secret.").tag(config=True)
    without_sandbox = Bool(False, help="Grade with limits alone where bubblewrap does not work.").tag(config=True)
    cell_seconds = Float(Limits.cell_seconds, help="Computing time of one cell.").tag(config=True)
    notebook_seconds = Float(Limits.notebook_seconds, help="Computing time of a notebook.").tag(config=True)
    wall_factor = Float(Limits.wall_factor, help="The limit by the clock, in computing times.").tag(config=True)
    memory_mb = Float(Limits.memory_mb, help="Memory of a notebook's processes.").tag(config=True)
    processes = Integer(Limits.processes, help="Processes and threads of a notebook.").tag(config=True)
    disk_mb = Float(Limits.disk_mb, help="What a notebook may write.").tag(config=True)
    output_mb = Float(Limits.output_mb, help="What a cell may show.").tag(config=True)

    @property
    def limits(self) -> Limits:
        """The limits as configured."""
        names = ("cell_seconds", "notebook_seconds", "wall_factor", "memory_mb", "processes", "disk_mb", "output_mb")
        return Limits(**{name: getattr(self, name) for name in names})

    def preprocess(self, nb: NotebookNode, resources: Any, km: Any = None) -> tuple[NotebookNode, Any]:
        """Run the notebook; what ended a kernel is noted with the question that it costs."""
        walls, root, limits = require_walls(self.without_sandbox), Path(self.course_root), self.limits
        assignment, student = resources["nbgrader"]["assignment"], resources["nbgrader"]["student"]
        release = notebooks.read(root / "release" / assignment / f"{assignment}.ipynb")
        plan = Plan(list(steps(nb, release, self.skip_cells_with_tag)))
        self._stubs, self._spent = solutions(release), (0.0, 0.0)
        self._unshown = int(limits.notebook_output_mb * MEGABYTE)
        stamp = nb.metadata.setdefault(STAMP, {})
        self._parent = warm_parent(root, limits) if walls else None
        with self._parent.place() if self._parent else tempfile.TemporaryDirectory(prefix="lecture-") as folder:
            self._place = Place(Path(folder).resolve(), walls, root)
            self._lay_out(DrawnCases(root, assignment, nb))
            submission = root / "submitted" / student / assignment
            notes = copy_files(submission, self._place.files)
            remove_followed_links(submission, root / "autograded" / student / assignment)
            stamp["notes"] = [*stamp.get("notes", []), *notes]
            # Every run ends the plan or leaves one more cell out; the bound is for what nobody has foreseen.
            for _ in range(2 * len(nb.cells) + 2):
                if plan.todo():
                    self._run(nb, resources, plan, limits)
            for _ in plan.appeals():
                self._run(nb, resources, plan, limits)
        stamp["incidents"] = [incident.as_record() for _, incident in sorted(plan.incidents.items())]
        return nb, resources

    def _lay_out(self, drawn: DrawnCases) -> None:
        self._place.inputs.mkdir(mode=0o755)
        for question in drawn.questions:
            (self._place.inputs / f"{question.id}.json").write_text(drawn.inputs(question), "utf-8")

    def _run(self, nb: NotebookNode, resources: Any, plan: Plan, limits: Limits) -> None:
        """Run what is left in one kernel, until the end or an incident."""
        NotebookClient.__init__(self, nb)
        self.reset_execution_trackers()
        # A cell ends by our own limits: nbclient's clock would make scores depend on the machine's load.
        self.timeout, self.iopub_timeout, self.startup_timeout = None, 60, 300
        self.shutdown_kernel = "immediate"
        self._check_assign_resources(resources)
        with self._kernel():
            watch = Watch(self._process, limits, self._spent, self._group)
            try:
                for step in plan.todo():
                    if plan.action(step) != SKIP and not self._go_on(nb, plan, step, watch):
                        break
            finally:
                watch.kill()
                self._spent = (self._spent[0] + watch.cpu_seconds, self._spent[1] + watch.wall_seconds)

    def _go_on(self, nb: NotebookNode, plan: Plan, step: Step, watch: Watch) -> bool:
        """Run one cell. Returns whether the same kernel can run the next one."""
        exhausted = watch.exhausted()
        if exhausted is not None:
            plan.give_up(exhausted)
            return False
        reason = self._run_cell(nb.cells[step.index], step, plan.action(step) == STAND_IN, watch)
        if reason is None:
            published = [output for output in nb.cells[step.index].outputs if MIME in output.get("data", {})]
            plan.ran(step, bool(published))
            if self._wanted_to_end is not None:
                plan.note(step, self._wanted_to_end)
            return not self._burns(plan, step, watch)
        try:
            plan.blame(step, reason, died=watch.ended is None)
        except NobodyToBlame:
            raise SandboxError(f"a kernel ended before anything of the student's ran: {reason.text}") from None
        return False

    def _run_cell(self, cell: NotebookNode, step: Step, empty: bool, watch: Watch) -> Reason | None:
        """Run one cell, or the empty answer in its place. Returns why it ended its kernel, or None."""
        # A copy, since the notebook keeps the student's source also where the empty answer runs in its place.
        running = copy.deepcopy(cell)
        if empty:
            running.source = self._stubs.get(str(step.question), "")
        self._meter = Meter(max(0, min(int(self.output_mb * MEGABYTE), self._unshown)))
        self._wanted_to_end: Reason | None = None
        seconds = self.cell_seconds
        if step.kind == RELEASED:
            seconds = max(seconds, Limits.released_seconds)
        reason = None
        try:
            with watch.cell(seconds):
                self.execute_cell(running, step.index, store_history=True)
        except DeadKernelError:
            reason = Reason(Kind.KERNEL_DIED, "the kernel died: the cell ended its own process")
        except CellTimeoutError:
            text = "the kernel was stopped: what the cell showed could not be read to its end"
            reason = Reason(Kind.KERNEL_STOPPED, text)
        except Exception as error:
            if isinstance(error, MemoryError | WatchError) or getattr(error, "errno", None) in _OUR_FAULT:
                raise
            text = f"the kernel was stopped: it sent what is not a message ({type(error).__name__})"
            reason = Reason(Kind.KERNEL_STOPPED, text)
        self._unshown -= self._meter.shown
        self.nb.cells[step.index] = cell
        if not empty:
            cell.outputs, cell.execution_count = running.outputs, running.execution_count
            cell.metadata["execution"] = running.metadata.get("execution", {})  # when it began and ended
        return watch.ended or reason

    def _burns(self, plan: Plan, step: Step, watch: Watch) -> bool:
        """Whether a cell has left something behind that goes on computing: a loop in a thread, a child process."""
        leftover = watch.left_behind()
        if leftover is not None:
            plan.suspect(step, f"{step.name} had left {leftover} behind")
        if step.kind in (TEST, OWN) and plan.is_suspect(step) and watch.is_busy():
            text = "out of time: a thread or process that it left behind went on computing and was stopped"
            plan.drop(step, Reason(Kind.OUT_OF_TIME, text))
            return True
        return False

    def on_cell_executed(self, **kwargs: Any) -> None:
        """Note whether the cell asked the kernel to end, which goes on (see `inside.py`), or ended itself."""
        super().on_cell_executed(**kwargs)
        content = kwargs["execute_reply"]["content"]
        if any(payload.get("source") == "ask_exit" for payload in content.get("payload", [])):
            text = "the kernel was told to end (exit, quit or a restart); the cells after it ran all the same"
            self._wanted_to_end = Reason(Kind.KERNEL_TOLD_TO_END, text)
        elif content.get("ename") == "SystemExit":
            text = "the cell ended itself (SystemExit); the cells after it ran all the same"
            self._wanted_to_end = Reason(Kind.CELL_ENDED_ITSELF, text)

    def process_message(self, msg: dict[str, Any], cell: NotebookNode, cell_index: int) -> NotebookNode | None:
        """Take a kernel's message, as far as a notebook can hold it, unless the cell has shown too much already."""
        readable = plain(msg)
        if readable is None or not self._meter.takes(readable, cell):
            return None
        output: NotebookNode | None = super().process_message(readable, cell, cell_index)
        return output

    def create_kernel_manager(self) -> Any:
        """A manager that starts the kernel in this submission's place, with empty private folders."""
        place = self._place
        for folder in (place.sockets, place.folder / "private"):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(mode=0o700)
        if place.user:
            shutil.chown(place.sockets, place.user, place.user)
        self.km = make_manager(place, self._start_kernel, config=self.config)
        return self.km

    def _start_kernel(self) -> Any:
        """A kernel from the warm parent, or one that is started alone."""
        if self._parent is None:
            return start_alone(self._place, self.limits, self.extra_arguments, self._start_output[1], self._group)
        try:
            return self._parent.fork(self._place, self.limits, self.extra_arguments, self._group)
        except ForkError as error:
            raise SandboxError(f"no kernel was forked: {error}") from None

    @contextlib.contextmanager
    def _kernel(self) -> Iterator[None]:
        """A kernel that runs; when it does not start, nothing of the student's is to blame."""
        with contextlib.ExitStack() as stack:
            # What a kernel says before the student's code runs; a pipe, since a file of ours could be filled later.
            self._start_output = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
            for descriptor in self._start_output:
                stack.callback(os.close, descriptor)
            self._group = None
            if self._place.walls and counted():
                self._group = ControlGroup(self.limits)
                stack.callback(self._group.close)
            try:
                stack.enter_context(self.setup_kernel())
            except RuntimeError as error:
                output = b""
                with contextlib.suppress(BlockingIOError):
                    output = os.read(self._start_output[0], 65536)
                text = output.decode("utf-8", "replace").strip()
                raise SandboxError(f"the sandbox did not start: {text[-300:] or error}") from None
            yield

    async def async_start_new_kernel(self, **kwargs: Any) -> None:
        """Start the kernel in an environment of its own: no start-up files, no history, one thread, private sockets."""
        await super().async_start_new_kernel(**kwargs)
        self._process = started_process(self.km)

    # nbclient binds the blocking name to its own coroutine when the class is made.
    start_new_kernel = run_sync(async_start_new_kernel)


def steps(nb: NotebookNode, release: NotebookNode, demo: str) -> Iterator[Step]:
    """The notebook's code cells that are run, with what each is."""
    released = {cell["id"] for cell in release.cells}
    for index, cell in enumerate(nb.cells):
        meta = cell.metadata.get("nbgrader", {})
        grade_id = meta.get("grade_id", "")
        if cell.cell_type != "code" or not cell.source.strip() or demo in cell.metadata.get("tags", []):
            continue
        if (question := by_test_id(grade_id)) is not None:
            yield Step(index, TEST, question.id)
        elif meta.get("solution"):
            yield Step(index, ANSWER, grade_id)
        else:
            yield Step(index, RELEASED if cell.get("id") in released else OWN)
