# ruff: noqa: E501 - most of it is a student's cell
"""What a submission can learn about the grader: a cell that looks everywhere and reports what it found."""

from __future__ import annotations

WANTED = (
    "the secret",
    "the gradebook",
    "the journal",
    "other submissions",
    "the released and the solved notebooks",
    "the descriptions",
    "the bank of answers",
    "the tests",
    "the descriptions as modules",
    "the grader's home",
    "the grader's environment",
    "other processes' environments",
    "passwords",
    "the host's temporary files",
    "a service on the grader's loopback",
    "the network",
    "the host's sockets",
    "the system's files for writing",
    "the packages for writing",
    "the library for writing",
    "the history of other notebooks",
    "expected values in frames and modules",
    "a capability",
)

SPY = """
def _spy():
    import ctypes, gc, glob, importlib, json, os, pathlib, socket, sys
    at = json.loads(SETTINGS)
    root, checkout, report = pathlib.Path(at["root"]), pathlib.Path(at["checkout"]), {}

    def look(name, attempt):
        try:
            found = attempt()
        except Exception as error:
            found = None
        report[name] = str(found)[:300] if found else None

    def read(*paths):
        return [str(p) for p in paths if pathlib.Path(p).is_file() and pathlib.Path(p).read_bytes()[:1]]

    def below(*folders):
        return [str(p) for f in folders for p in pathlib.Path(f).rglob("*") if p.is_file()]

    def connect(family, address):
        with socket.socket(family) as s:
            s.settimeout(2)
            s.connect(address)
            return f"connected to {address}"

    def write(folder):
        target = pathlib.Path(folder) / "written-by-a-student"
        target.write_text("x")
        return target

    look("found", lambda: read(torch.__file__) and "the spy can read what is there")
    everywhere = [root, f"/proc/1/root{root}", f"/proc/self/root{root}", *glob.glob(f"/proc/*/cwd{root}")]
    look("the secret", lambda: read(*(f"{where}/secret" for where in everywhere)))
    look("the gradebook", lambda: read(*(f"{where}/gradebook.db" for where in everywhere)))
    look("the journal", lambda: below(root / "journal"))
    look("other submissions", lambda: below(root / "submitted", root / "autograded", root / "feedback"))
    look("the released and the solved notebooks", lambda: below(root / "source", root / "release", checkout / "notebooks"))
    look("the descriptions", lambda: below(checkout / "autograders/questions/descriptions", "/lecture/python/autograders/questions"))
    look("the bank of answers", lambda: below(checkout / "autograders/questions/answers", "/lecture/python/autograders/questions/answers"))
    look("the tests", lambda: below(checkout / "tests", checkout / ".git"))
    def judges():
        names = ["autograders.questions.descriptions", "autograders.questions.question", "autograders.questions.seeds", "autograders.grading.grade"]
        found = []
        for name in names:
            try:
                found.append(importlib.import_module(name))
            except ImportError:
                pass
        return found
    look("the descriptions as modules", judges)
    known = {".pyenv", ".venv", ".local", "miniconda3", "anaconda3"}
    look("the grader's home", lambda: [p for p in os.listdir(at["home"]) if p not in known])
    look("the grader's environment", lambda: [n for n in os.environ if "TOKEN" in n or n.startswith(("PYTEST", "LECTURE_COURSE"))])
    def environments():
        return [p for p in glob.glob("/proc/*/environ") if b"a-token-of-the-grader" in open(p, "rb").read()]
    look("other processes' environments", environments)
    look("passwords", lambda: read("/etc/shadow", "/etc/passwd", "/root/.ssh/id_rsa", "/run/secrets/token"))
    look("the host's temporary files", lambda: [p for p in os.listdir("/tmp") if p.startswith("pytest") or p.startswith("tmp.")])
    look("a service on the grader's loopback", lambda: connect(socket.AF_INET, ("127.0.0.1", at["port"])))
    look("the network", lambda: connect(socket.AF_INET, ("1.1.1.1", 53)) or socket.gethostbyname("pypi.org"))
    look("the host's sockets", lambda: below("/run", "/var/run") + [n for _, n in socket.if_nameindex() if n != "lo"])
    look("the system's files for writing", lambda: write("/usr/lib"))
    look("the packages for writing", lambda: write(pathlib.Path(torch.__file__).parents[1]))
    import lecture_lib
    look("the library for writing", lambda: write(pathlib.Path(lecture_lib.__file__).parent))
    def history():
        shell = get_ipython()
        return [row for row in shell.history_manager.get_tail(1000, include_latest=True) if row[0] != shell.history_manager.session_number]
    look("the history of other notebooks", history)
    def expected():
        frames, frame = [], sys._getframe()
        while frame:
            frames.append(frame)
            frame = frame.f_back
        names = [n for f in frames for n in f.f_globals if n.startswith("HiddenCase")]
        return names + [m for m in sys.modules if m.startswith("autograders.") and "probes" not in m]
    look("expected values in frames and modules", expected)
    def capability():
        status = open("/proc/self/status").read()
        return int(status.split("CapEff:")[1].split()[0], 16)
    look("a capability", capability)
    print("REPORT " + json.dumps(report))

_spy()
"""
