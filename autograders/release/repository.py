"""The public repository that students get a release from, and the addresses made from it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

_PART = re.compile(r"[A-Za-z0-9_][\w.-]*", re.ASCII)
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*(:\d+)?")
_BINDER = "https://mybinder.org"
_COLAB = "https://colab.research.google.com"


class RepositoryError(ValueError):
    """No address of a public git repository; the message says what is wrong with it."""


@dataclass(frozen=True)
class Repository:
    """A git repository that everybody can read, by its web address.

    Attributes:
        url: `https://HOST/OWNER/NAME`, without a slash or `.git` at its end.

    """

    url: str

    @classmethod
    def parse(cls, text: str) -> Repository:
        """Read an address. Raises RepositoryError when students could not clone from it, or it holds a password."""
        problem = _problem(text)
        if problem:
            raise RepositoryError(
                f"{text!r} is no address of a repository for students: {problem}. Give it as in a browser: "
                "https://github.com/OWNER/NAME"
            )
        return cls(text.rstrip("/").removesuffix(".git"))

    @property
    def host(self) -> str:
        """Such as `github.com`."""
        return urlsplit(self.url).netloc.lower()

    @property
    def path(self) -> str:
        """Such as `OWNER/NAME`."""
        return urlsplit(self.url).path.strip("/")

    def pip(self, tag: str) -> str:
        """What pip installs the library of one release from."""
        return f"git+{self.url}@{tag}"

    def binder(self, tag: str, notebook: str) -> str:
        """Where Binder opens a notebook of one release."""
        if self.host == "github.com":
            place = f"gh/{self.path}"
        elif self.host == "gitlab.com":
            place = f"gl/{quote(self.path, safe='')}"
        else:
            place = f"git/{quote(self.url, safe='')}"
        return f"{_BINDER}/v2/{place}/{tag}?urlpath={quote(f'lab/tree/notebooks/{notebook}.ipynb', safe='')}"

    def colab(self, tag: str, notebook: str) -> str | None:
        """Where Colab opens a notebook of one release; None where it cannot: it reads GitHub only."""
        if self.host != "github.com":
            return None
        return f"{_COLAB}/github/{self.path}/blob/{tag}/notebooks/{notebook}.ipynb"

    def badges(self, tag: str, notebook: str) -> str:
        """Links to Colab and Binder as Markdown; their pictures' alt texts name the notebook."""
        colab = self.colab(tag, notebook)
        badges = [] if colab is None else [(f"Open {notebook} in Colab", f"{_COLAB}/assets/colab-badge.svg", colab)]
        badges.append((f"Open {notebook} on Binder", f"{_BINDER}/badge_logo.svg", self.binder(tag, notebook)))
        return " ".join(f"[![{words}]({picture})]({link})" for words, picture, link in badges)


def _problem(text: str) -> str:
    try:
        parts = urlsplit(text)
    except ValueError as error:
        return str(error)
    if parts.scheme not in ("http", "https"):
        return "it does not begin with https://"
    if "@" in parts.netloc:
        return "it holds a user name or password, which every student would read"
    if not _HOST.fullmatch(parts.netloc):
        return f"{parts.netloc!r} is no host"
    if parts.query or parts.fragment:
        return "it has something behind ? or #"
    names = parts.path.strip("/").split("/")
    if len(names) < 2 or not all(_PART.fullmatch(name) for name in names):
        return "a path OWNER/NAME of letters, digits and . _ - is missing"
    return ""
